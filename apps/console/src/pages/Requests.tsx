import { Link } from '@tanstack/react-router';
import type { components } from '@weighbridge/client';
import { api } from '../api/client.ts';
import { Badge, Code, Name, Time } from '../ui/bits.tsx';
import { Filters } from '../ui/fields.tsx';
import { Page } from '../ui/Page.tsx';
import { given, useSearch } from '../ui/search.ts';
import { List } from '../ui/Table.tsx';
import { alignedMoney, count } from '../ui/text.ts';
import { daysAgo } from './period.ts';

export type RequestRecord = components['schemas']['RequestRecord'];

/** What the operation takes as it is in the address. */
const FILTERS = [
  'request_id',
  'model',
  'principal_id',
  'outcome',
  'session_id',
  'estimated',
  'price_incomplete',
  'provider',
  'key_id',
  'policy_id',
  'team_id',
  'user',
  'team',
  'project',
  'env',
  'label',
  'page_token',
] as const;
const PAGE_SIZE = 50;
const YES = [['true', 'Yes']] as const;
const DAYS = [
  ['1', 'The last day'],
  ['30', 'The last 30'],
  ['90', 'The last 90'],
] as const;
const OUTCOMES = [
  'success',
  'upstream_error',
  'upstream_unreachable',
  'interrupted',
  'client_gone',
  'unknown',
  'refused',
] as const;

const MORE = [
  { name: 'provider', label: 'Provider', hint: 'openai' },
  { name: 'key_id', label: 'Key id', hint: 'key_…' },
  { name: 'policy_id', label: 'Policy id, or above it', hint: 'pol_…' },
  { name: 'team_id', label: 'Team id', hint: 'team_…' },
  { name: 'session_id', label: 'Session id' },
  { name: 'user', label: 'User' },
  { name: 'team', label: 'Team as named' },
  { name: 'project', label: 'Project' },
  { name: 'env', label: 'Environment' },
  { name: 'label', label: 'Labels', hint: 'stage=test,lang=de' },
  { name: 'min_cost', label: 'Cost at least, USD', hint: '0.25' },
  { name: 'price_incomplete', label: 'Price incomplete', options: YES },
] as const;

/** As the operation takes it; what is no amount goes as it is, so that the operation says so. */
function microOf(usd: string): string {
  const micro = Math.round(Number(usd) * 1_000_000);
  return Number.isFinite(micro) ? String(micro) : usd;
}

export function Requests() {
  const [search, setSearch] = useSearch();
  const query = api.useQuery('get', '/api/v1/requests', {
    params: {
      query: {
        ...given(search, FILTERS),
        ...(search.min_cost && { min_cost_micro_usd: microOf(search.min_cost) }),
        from: daysAgo(new Date(), Number(DAYS.find(([one]) => one === search.days)?.[0] ?? 7)),
        page_size: PAGE_SIZE,
      } as object,
    },
  });
  const { data: rows = [], next_page_token: next = '' } = query.data ?? {};
  const isShort = next !== '' && rows.length > 0 && rows.length < PAGE_SIZE;
  return (
    <Page title="Requests" lead="Newest first. A refused request says why.">
      <Filters
        filters={[
          {
            name: 'days',
            label: 'Days',
            any: 'The last 7',
            options: DAYS,
          },
          { name: 'request_id', label: 'Request id' },
          { name: 'model', label: 'Model' },
          { name: 'principal_id', label: 'Principal' },
          { name: 'outcome', label: 'Outcome', options: OUTCOMES.map((one) => [one, one] as const) },
          { name: 'estimated', label: 'Estimated', options: YES },
        ]}
        more={MORE}
      />
      <List<RequestRecord>
        query={query}
        narrower={
          search.days === '1'
            ? undefined
            : { label: 'Search the last day', run: () => setSearch({ days: '1' }) }
        }
        caption="Requests"
        rowKey={({ request_id, admitted_at }) => request_id + admitted_at}
        columns={[
          {
            title: 'Request',
            value: ({ request_id, admitted_at }) => (
              <>
                <Link to={`/requests/${encodeURIComponent(request_id)}` as string}>
                  <Code text={request_id} />
                </Link>
                <small>
                  <Time at={admitted_at} />
                </small>
              </>
            ),
            wrap: true,
          },
          { title: 'Outcome', value: (row) => <Outcome row={row} /> },
          {
            title: 'Model',
            value: ({ model_requested }) => <Name text={model_requested} />,
            wrap: true,
          },
          {
            title: 'Key',
            value: ({ key_name, key_id, principal_id }) => (
              <>
                <Name text={key_name ?? key_id} />
                <small>
                  <Name text={principal_id} />
                </small>
              </>
            ),
            wrap: true,
          },
          {
            title: 'Input',
            value: ({ attempts }) => count(sum(attempts.map((one) => one.input_tokens))),
            end: true,
          },
          {
            title: 'Output',
            value: ({ attempts }) => count(sum(attempts.map((one) => one.output_tokens))),
            end: true,
          },
          { title: 'Cost', value: ({ cost_micro_usd }) => alignedMoney(cost_micro_usd), end: true },
        ]}
        empty={
          next ? (
            <p>No request matches so far: the search continues on the next page.</p>
          ) : (
            <p>No request matches. Widen the filters, or connect a client.</p>
          )
        }
      />
      {isShort && <p>The search continues on the next page: few requests match.</p>}
    </Page>
  );
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

export function Outcome({ row }: { row: Pick<RequestRecord, 'outcome' | 'refusal' | 'attempts'> }) {
  const { outcome, refusal, attempts } = row;
  return (
    <>
      <Badge tone={outcome === 'success' ? 'good' : 'bad'}>{refusal?.code ?? outcome}</Badge>{' '}
      {attempts.some(({ estimated }) => estimated) && <Badge tone="warn">estimated</Badge>}
    </>
  );
}
