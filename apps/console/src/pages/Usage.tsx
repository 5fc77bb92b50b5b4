import { useSpend } from '../api/spend.ts';
import { readsAll, useWhoami } from '../app/session.ts';
import { Money, Name } from '../ui/bits.tsx';
import { SelectField, TextField } from '../ui/fields.tsx';
import { Loaded, Page } from '../ui/Page.tsx';
import styles from '../ui/page.module.css';
import { useSearch } from '../ui/search.ts';
import { type Column, Pager, Table } from '../ui/Table.tsx';
import { count, percent } from '../ui/text.ts';
import { daysAgo, monthStart } from './period.ts';

const GROUPS = [
  ['model', 'Model'],
  ['provider', 'Provider'],
  ['key', 'Key'],
  ['principal', 'Principal'],
  ['team_id', 'Team'],
  ['policy', 'Policy'],
  ['connector', 'Connector'],
  ['project', 'Project'],
  ['env', 'Environment'],
  ['user', 'User'],
] as const;
const RANGES = [
  ['month', 'This month'],
  ['1', 'Since yesterday'],
  ['7', 'Last 7 days'],
  ['30', 'Last 30 days'],
  ['90', 'Last 90 days'],
] as const;
const BUCKETS = [
  ['', 'The whole range'],
  ['hour', 'Each hour'],
  ['day', 'Each day'],
  ['month', 'Each month'],
] as const;

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

const oneOf = (value: string | undefined, options: readonly (readonly [string, string])[]) =>
  options.some(([one]) => one === value) ? (value as string) : (options[0]?.[0] ?? '');

/** Spend by group. The address says what is shown, so that a link shows the same. */
export function Usage() {
  const [search, setSearch] = useSearch();
  const whoami = useWhoami();
  const range = oneOf(search.range, RANGES);
  const bucket = oneOf(search.bucket, BUCKETS);
  const group = oneOf(search.group, GROUPS);
  const then = oneOf(search.by, [['', ''], ...GROUPS]);
  const by = then && then !== group ? [group, then] : [group];
  const now = new Date();
  const filter = { model: search.model, principal_id: search.principal_id, project: search.project };
  const given = Object.entries(filter).filter(([, value]) => value);
  const asked = {
    ...Object.fromEntries(given),
    from: range === 'month' ? monthStart(now) : daysAgo(now, Number(range)),
    group_by: by.join(','),
    ...(bucket ? { bucket: bucket as 'day' } : { compare: 'previous' as const }),
    ...(search.page_token !== undefined && { page_token: search.page_token }),
    ...(bucket && { limit: 20 }),
    ...(!bucket && { sort: '-cost' as const }),
  };
  const query = useSpend(asked);
  return (
    <Page
      title="Usage"
      lead={
        readsAll(whoami) ? 'Spend of everyone, from the ledger.' : 'Spend that you may see, from the ledger.'
      }
    >
      <div className={styles.filters}>
        <SelectField
          label="Range"
          name="range"
          options={RANGES}
          value={range}
          onChange={(value) => setSearch({ range: value })}
        />
        <SelectField
          label="Group by"
          name="group"
          options={GROUPS}
          value={group}
          onChange={(value) => setSearch({ group: value })}
        />
        <SelectField
          label="Then by"
          name="by"
          options={[['', 'Nothing'], ...GROUPS]}
          value={then}
          onChange={(value) => setSearch({ by: value })}
        />
        <SelectField
          label="Rows for"
          name="bucket"
          options={BUCKETS}
          value={bucket}
          onChange={(value) => setSearch({ bucket: value })}
        />
        {(['model', 'project'] as const).map((name) => (
          <TextField
            key={`${name} ${search[name]}`}
            label={`Only ${name}`}
            name={name}
            defaultValue={search[name]}
            onBlur={({ target }) =>
              target.value !== (search[name] ?? '') && setSearch({ [name]: target.value })
            }
          />
        ))}
      </div>
      <Loaded query={query}>
        {({ data, next_page_token, total }) => (
          <>
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
                  </>
                )}
                .
              </p>
            )}
            <Table<Row>
              caption="Spend by group"
              rows={data as readonly Row[]}
              rowKey={(row) => JSON.stringify([row.bucket_start, row.others, row.group])}
              columns={columns(by, bucket !== '', total?.cost_micro_usd)}
              empty={<p>No usage in this range. Choose a longer range, or connect a client.</p>}
            />
            <Pager next={next_page_token} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function columns(by: readonly string[], hasBuckets: boolean, total: number | undefined): Column<Row>[] {
  const title = (name: string) => GROUPS.find(([one]) => one === name)?.[1] ?? name;
  return [
    ...(hasBuckets
      ? [
          {
            title: 'From (UTC)',
            value: ({ bucket_start }: Row) => bucket_start?.slice(0, 16).replace('T', ' '),
          },
        ]
      : []),
    ...by.map((name) => ({
      title: title(name),
      value: ({ group, names, others }: Row) =>
        others ? 'others' : <Name text={names[name] ?? group[name] ?? 'none'} />,
      wrap: true,
    })),
    { title: 'Requests', value: ({ requests }) => count(requests), end: true },
    { title: 'Failed attempts', value: ({ failed_attempts }) => count(failed_attempts), end: true },
    { title: 'Input tokens', value: ({ input_tokens }) => count(input_tokens), end: true },
    { title: 'From cache', value: ({ cache_read_tokens }) => count(cache_read_tokens), end: true },
    { title: 'To cache', value: ({ cache_write_tokens }) => count(cache_write_tokens), end: true },
    { title: 'Output tokens', value: ({ output_tokens }) => count(output_tokens), end: true },
    { title: 'Cost', value: ({ cost_micro_usd }) => <Money micro={cost_micro_usd} />, end: true },
    ...(total === undefined || hasBuckets
      ? []
      : [
          { title: 'Share', value: ({ cost_micro_usd }: Row) => percent(cost_micro_usd, total), end: true },
          {
            title: 'Before',
            value: ({ previous }: Row) => <Money micro={previous?.cost_micro_usd} />,
            end: true,
          },
        ]),
  ];
}
