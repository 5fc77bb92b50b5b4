import { Link } from '@tanstack/react-router';
import type { components } from '@weighbridge/client';
import { api } from '../api/client.ts';
import { Badge, Code, Money, Name, Time } from '../ui/bits.tsx';
import { Filters } from '../ui/fields.tsx';
import { Page } from '../ui/Page.tsx';
import { given, useSearch } from '../ui/search.ts';
import { List } from '../ui/Table.tsx';
import { count } from '../ui/text.ts';
import { daysAgo } from './period.ts';

export type RequestRecord = components['schemas']['RequestRecord'];

const FILTERS = [
  'request_id',
  'model',
  'principal_id',
  'outcome',
  'session_id',
  'estimated',
  'page_token',
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

export function Requests() {
  const [search] = useSearch();
  const query = api.useQuery('get', '/api/v1/requests', {
    params: {
      query: {
        ...given(search, FILTERS),
        from: daysAgo(new Date(), Number(search.days ?? 7)),
        page_size: 50,
      } as object,
    },
  });
  return (
    <Page title="Requests" lead="The newest first. A refused request is a row that says why.">
      <Filters
        filters={[
          {
            name: 'days',
            label: 'Days',
            options: [
              ['1', '1'],
              ['7', '7'],
              ['30', '30'],
            ],
          },
          { name: 'request_id', label: 'Request id' },
          { name: 'model', label: 'Model' },
          { name: 'principal_id', label: 'Principal' },
          { name: 'outcome', label: 'Outcome', options: OUTCOMES.map((one) => [one, one] as const) },
          { name: 'estimated', label: 'Estimated', options: [['true', 'Yes']] },
        ]}
      />
      <List<RequestRecord>
        query={query}
        caption="Requests"
        rowKey={({ request_id, admitted_at }) => request_id + admitted_at}
        columns={[
          { title: 'At', value: ({ admitted_at }) => <Time at={admitted_at} /> },
          {
            title: 'Request',
            value: ({ request_id }) => (
              <Link to={`/requests/${encodeURIComponent(request_id)}` as string}>
                <Code text={request_id} />
              </Link>
            ),
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
          { title: 'Cost', value: ({ cost_micro_usd }) => <Money micro={cost_micro_usd} />, end: true },
        ]}
        empty={<p>No request matches. Widen the filters, or connect a client.</p>}
      />
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
