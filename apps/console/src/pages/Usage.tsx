import { useState } from 'react';
import { client, sendForFile } from '../api/client.ts';
import { saveFile } from '../api/download.ts';
import { type SpendQuery, useSpend } from '../api/spend.ts';
import { readsAll, useWhoami } from '../app/session.ts';
import { Actions, Button, CopyButton, InputTokens, Money, Name } from '../ui/bits.tsx';
import { SearchSelect, TextField } from '../ui/fields.tsx';
import { LazyChart } from '../ui/LazyChart.tsx';
import { Loaded, type Narrower, Page, Problem, Section } from '../ui/Page.tsx';
import styles from '../ui/page.module.css';
import { type SortedColumn, SortedTable } from '../ui/SortedTable.tsx';
import { formatSearch, given, type Search, useSearch } from '../ui/search.ts';
import { arrange } from '../ui/series.ts';
import { Pager } from '../ui/Table.tsx';
import { alignedMoney, count, percent, roughCount, roughMoney, visible } from '../ui/text.ts';
import { bucketLabel, bucketOf, type Period, periodOf, shorterRange, wholeDays } from './period.ts';

/** What spend is grouped by, with the filter that shows one group alone. */
const GROUPS = [
  ['model', 'Model', 'model'],
  ['provider', 'Provider', 'provider'],
  ['key', 'Key', 'key_id'],
  ['principal', 'Principal', 'principal_id'],
  ['team_id', 'Team', 'team_id'],
  ['policy', 'Policy', 'policy_id'],
  ['connector', 'Connector', undefined],
  ['project', 'Project', 'project'],
  ['env', 'Environment', 'env'],
  ['user', 'User', 'user'],
] as const;
const FILTERS = GROUPS.flatMap(([, label, filter]) => (filter ? [[filter, label] as const] : []));
const FILTER_NAMES = FILTERS.map(([name]) => name);
const GROUP_CHOICES = GROUPS.map(([name, label]) => [name, label] as const);
const RANGES = [
  ['month', 'This month'],
  ['1', 'Since yesterday'],
  ['7', 'Last 7 days'],
  ['30', 'Last 30 days'],
  ['90', 'Last 90 days'],
  ['365', 'Last 365 days'],
] as const;
const SHOWN = [
  ['bars', 'Each bucket'],
  ['sum', 'Added up'],
] as const;
const METRICS = {
  cost: ['Cost', (row: Row) => row.cost_micro_usd, roughMoney],
  requests: ['Requests', (row: Row) => row.requests, roughCount],
  input: [
    'Input tokens',
    (row: Row) => row.input_tokens + row.cache_read_tokens + row.cache_write_tokens,
    roughCount,
  ],
  output: ['Output tokens', (row: Row) => row.output_tokens, roughCount],
  failed: ['Failed attempts', (row: Row) => row.failed_attempts, roughCount],
} as const;
const METRIC_CHOICES = Object.entries(METRICS).map(([name, [label]]) => [name, label] as const);
/** What the colours tell apart; the rest is one series. */
const SERIES = 5;

type Named = Readonly<Record<string, string | null>>;

interface Row {
  readonly bucket_start: string | null;
  readonly group: Named;
  readonly names: Named;
  readonly others: boolean;
  readonly requests: number;
  readonly input_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_tokens: number;
  readonly output_tokens: number;
  readonly failed_attempts: number;
  readonly cost_micro_usd: number;
  readonly previous?: { readonly cost_micro_usd: number };
}

const oneOf = (value: string | undefined, choices: readonly (readonly [string, string])[]) =>
  choices.some(([one]) => one === value) ? (value as string) : (choices[0]?.[0] ?? '');

interface View {
  readonly period: Period;
  readonly filters: Record<string, string>;
  readonly group: string;
  readonly by: readonly string[];
  readonly metric: keyof typeof METRICS;
  readonly cumulative: boolean;
}

function viewOf(search: Search): View {
  const group = oneOf(search.group, GROUP_CHOICES);
  const then = oneOf(search.by, [['', ''], ...GROUP_CHOICES]);
  return {
    period: periodOf({ ...search, range: oneOf(search.range, RANGES) }, new Date()),
    filters: given(search, FILTER_NAMES),
    group,
    by: then && then !== group ? [group, then] : [group],
    metric: oneOf(search.metric, METRIC_CHOICES) as keyof typeof METRICS,
    cumulative: search.show === 'sum',
  };
}

/** Spend by group. The address says what is shown, so that a link shows the same. */
export function Usage() {
  const [search, setSearch] = useSearch();
  const whoami = useWhoami();
  const view = viewOf(search);
  const { period } = view;
  return (
    <Page
      title="Usage"
      lead={
        readsAll(whoami) ? 'Spend of everyone, from the ledger.' : 'Spend that you may see, from the ledger.'
      }
      actions={<Downloads view={view} search={search} />}
    >
      <div className={styles.filters}>
        {search.from === undefined ? (
          <SearchSelect label="Range" name="range" options={RANGES} value={oneOf(search.range, RANGES)} />
        ) : (
          <Button onClick={() => setSearch({ from: undefined, to: undefined })}>
            {`${visible(period.from.slice(0, 10))} to ${visible(period.to?.slice(0, 10) ?? 'now')} ×`}
          </Button>
        )}
        <SearchSelect label="Group by" name="group" options={GROUP_CHOICES} value={view.group} />
        <SearchSelect
          label="Then by"
          name="by"
          options={[['', 'Nothing'], ...GROUP_CHOICES]}
          value={view.by[1] ?? ''}
        />
        <SearchSelect label="Chart" name="metric" options={METRIC_CHOICES} value={view.metric} />
        <SearchSelect label="Drawn" name="show" options={SHOWN} value={view.cumulative ? 'sum' : 'bars'} />
        {(['model', 'principal_id', 'project'] as const).map((name) => (
          <TextField
            key={`${name} ${search[name]}`}
            label={`Only ${FILTERS.find(([one]) => one === name)?.[1].toLowerCase()}`}
            name={name}
            defaultValue={search[name]}
            onKeyDown={(event) => event.key === 'Enter' && setSearch({ [name]: event.currentTarget.value })}
            onBlur={({ target }) =>
              target.value !== (search[name] ?? '') && setSearch({ [name]: target.value })
            }
          />
        ))}
      </div>
      <Chips filters={view.filters} />
      <OverTime view={view} />
      <ByGroup view={view} />
    </Page>
  );
}

/** The filters that are on; each can be taken off. */
function Chips({ filters }: { filters: Record<string, string> }) {
  const [, setSearch] = useSearch();
  const on = FILTERS.filter(([name]) => filters[name] !== undefined);
  if (on.length === 0) return null;
  return (
    <div className={styles.chips}>
      {on.map(([name, label]) => (
        <Button key={name} small onClick={() => setSearch({ [name]: undefined })}>
          {`${label}: ${visible(filters[name] ?? '')} ×`}
        </Button>
      ))}
    </div>
  );
}

const asked = ({ period, filters, by }: View): SpendQuery => ({
  ...filters,
  ...period,
  group_by: by.join(','),
});

function Downloads({ view, search }: { view: View; search: Search }) {
  const [failure, setFailure] = useState<unknown>();
  const save = (name: string, read: () => Promise<{ data?: unknown }>) => () => {
    setFailure(undefined);
    read()
      .then(({ data }) => saveFile(data as Blob, name))
      .catch(setFailure);
  };
  const day = view.period.from.slice(0, 10);
  const csv = () =>
    client.GET('/api/v1/spend', {
      params: { query: asked(view) },
      headers: { accept: 'text/csv' },
      parseAs: 'blob',
      fetch: sendForFile,
    });
  const days = wholeDays(view.period, new Date());
  const saveFocus = (format: 'csv' | 'parquet') =>
    save(`focus-${days.from.slice(0, 10)}-to-${days.to.slice(0, 10)}.${format}`, () =>
      client.GET('/api/v1/spend/focus', {
        params: { query: { ...view.filters, ...days, format } },
        parseAs: 'blob',
        fetch: sendForFile,
      }),
    );
  const title = `Whole days of UTC, at most 31: ${days.from.slice(0, 10)} until before ${days.to.slice(0, 10)}`;
  const fixed = { ...search, ...view.period, to: view.period.to ?? now(), range: undefined };
  return (
    <div>
      <Actions>
        <Button onClick={save(`spend-${day}.csv`, csv)}>Save as CSV</Button>
        <Button title={title} onClick={saveFocus('csv')}>
          Save as FOCUS
        </Button>
        <Button title={title} onClick={saveFocus('parquet')}>
          FOCUS as Parquet
        </Button>
        <CopyButton
          label="Copy a link"
          text={`${window.location.origin}/console/usage${formatSearch(fixed)}`}
        />
      </Actions>
      {failure !== undefined && <Problem error={failure} />}
    </div>
  );
}

/** To the hour: a link that is copied twice is the same. */
const now = () => `${new Date(Date.now() + 3_600_000).toISOString().slice(0, 13)}:00:00.000Z`;

const nameOf = ({ group, names, others }: Row, by: string) =>
  others ? 'others' : (names[by] ?? group[by] ?? 'none');

/** A shorter range, in one step. */
function useNarrower({ period }: View): Narrower | undefined {
  const [, setSearch] = useSearch();
  const range = shorterRange(period, new Date());
  const label = RANGES.find(([one]) => one === range)?.[1];
  if (label === undefined) return undefined;
  return {
    label: `Show: ${label.toLowerCase()}`,
    run: () => setSearch({ range, from: undefined, to: undefined }),
  };
}

function OverTime({ view }: { view: View }) {
  const { period, filters, group, metric, cumulative } = view;
  const bucket = bucketOf(period, new Date());
  const query = useSpend({
    ...filters,
    ...period,
    group_by: group,
    bucket,
    limit: SERIES,
  });
  const [label, amountOf, format] = METRICS[metric];
  return (
    <Section title={`${label} by ${group.replace('_id', '')}, each ${bucket} (UTC)`}>
      <Loaded query={query} narrower={useNarrower(view)}>
        {({ data }) => {
          const sums = (data as readonly Row[]).map((row) => ({
            at: row.bucket_start ?? period.from,
            series: nameOf(row, group),
            value: amountOf(row),
          }));
          if (sums.length === 0) return null;
          return (
            <LazyChart
              chart={arrange(sums, { bucket, cumulative, others: 'others' })}
              label={`${label} by ${group}, each ${bucket}; the table below has the sums`}
              cumulative={cumulative}
              format={format}
              timeLabel={(at) => bucketLabel(at, bucket)}
            />
          );
        }}
      </Loaded>
    </Section>
  );
}

function ByGroup({ view }: { view: View }) {
  const [search, setSearch] = useSearch();
  const sort = search.sort ?? '-cost';
  const query = useSpend({
    ...asked(view),
    ...given(search, ['page_token']),
    compare: 'previous',
    sort: sort as '-cost',
  });
  return (
    <Loaded query={query} narrower={useNarrower(view)}>
      {({ data, next_page_token, total, lacks_other }) => (
        <>
          {lacks_other && (
            <p>
              Some usage of this filter may count under (other), since its key had very many values. Group by
              the value instead, or list the requests.
            </p>
          )}
          {total && (
            <p>
              <strong>
                <Money micro={total.cost_micro_usd} />
              </strong>{' '}
              for {count(total.requests)} requests
              {total.previous && (
                <>
                  {'; in the period before '}
                  <Money micro={total.previous.cost_micro_usd} />
                  {` (${change(total.cost_micro_usd, total.previous.cost_micro_usd)})`}
                </>
              )}
              .
            </p>
          )}
          <SortedTable<Row>
            caption="Spend by group"
            rows={data as readonly Row[]}
            rowKey={(row) => JSON.stringify([row.others, row.group])}
            columns={columns(view.by, total?.cost_micro_usd)}
            sort={sort}
            onSort={(next) => setSearch({ sort: next })}
            empty={<p>No usage in this range. Choose a longer range, or connect a client.</p>}
          />
          <Pager next={next_page_token} />
        </>
      )}
    </Loaded>
  );
}

function change(present: number, before: number): string {
  if (before === 0) return present === 0 ? '±0%' : 'new';
  const share = (present - before) / before;
  return `${share < 0 ? '−' : '+'}${percent(Math.abs(share), 1)}`;
}

function columns(by: readonly string[], total: number | undefined): SortedColumn<Row>[] {
  return [
    ...by.map((name) => ({
      title: GROUPS.find(([one]) => one === name)?.[1] ?? name,
      value: (row: Row) => <GroupName row={row} by={name} />,
      wrap: true,
    })),
    { title: 'Requests', value: ({ requests }) => count(requests), end: true, field: 'requests' },
    {
      title: 'Failed attempts',
      value: ({ failed_attempts }) => count(failed_attempts),
      end: true,
      spare: by.length > 1,
    },
    {
      title: 'Input tokens',
      value: (row) => <InputTokens of={row} />,
      end: true,
      field: 'input_tokens',
    },
    {
      title: 'Output tokens',
      value: ({ output_tokens }) => count(output_tokens),
      end: true,
      field: 'output_tokens',
    },
    {
      title: 'Cost',
      value: ({ cost_micro_usd }) => alignedMoney(cost_micro_usd),
      end: true,
      field: 'cost',
    },
    ...(total === undefined
      ? []
      : [
          {
            title: 'Share',
            value: ({ cost_micro_usd }: Row) => percent(cost_micro_usd, total),
            end: true,
            spare: by.length > 1,
          },
        ]),
    {
      title: 'Before',
      value: ({ cost_micro_usd, previous }: Row) =>
        previous && (
          <>
            <Money micro={previous.cost_micro_usd} />
            <small>{change(cost_micro_usd, previous.cost_micro_usd)}</small>
          </>
        ),
      end: true,
    },
  ];
}

/** A group; choosing it shows that one alone. */
function GroupName({ row, by }: { row: Row; by: string }) {
  const [, setSearch] = useSearch();
  const filter = GROUPS.find(([one]) => one === by)?.[2];
  const value = row.group[by];
  const name = <Name text={nameOf(row, by)} />;
  if (row.others || !filter || !value) return name;
  return (
    <button type="button" className={styles.drill} onClick={() => setSearch({ [filter]: value })}>
      {name}
    </button>
  );
}
