import { Link } from '@tanstack/react-router';
import { api } from '../api/client.ts';
import { useSpend } from '../api/spend.ts';
import { readsAll, useWhoami } from '../app/session.ts';
import { Badge, LimitBar, Money, Name, RoundMoney, Time, type Tone } from '../ui/bits.tsx';
import { LazyChart } from '../ui/LazyChart.tsx';
import { Card, Cards, Loaded, Page, Section } from '../ui/Page.tsx';
import { SortedTable } from '../ui/SortedTable.tsx';
import { arrange } from '../ui/series.ts';
import { Table } from '../ui/Table.tsx';
import { count, percent, roughMoney, span } from '../ui/text.ts';
import { bucketLabel, monthStart } from './period.ts';

export function Overview() {
  const whoami = useWhoami();
  const all = readsAll(whoami);
  return (
    <Page
      title="Overview"
      lead={all ? 'The whole service, this month (UTC).' : 'Your own use, this month (UTC).'}
    >
      <Spend />
      <Budget />
      {all && <Attention />}
      <BurnDown />
      <TopModels />
    </Page>
  );
}

/** The first page always has a total. */
const NONE = {
  cost_micro_usd: 0,
  requests: 0,
  attempts: 0,
  failed_attempts: 0,
  input_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
};

function Spend() {
  const now = new Date();
  const query = useSpend({ from: monthStart(now), bucket: 'day', page_size: 100 });
  const today = now.toISOString().slice(0, 10);
  return (
    <Loaded query={query}>
      {({ data, total = NONE, bucket_as_of, complete }) => {
        const ofToday = data.find(({ bucket_start }) => bucket_start?.startsWith(today));
        return (
          <Cards>
            <Card
              label="Spent this month"
              value={<RoundMoney micro={total.cost_micro_usd} />}
              detail={
                <>
                  {complete ? 'as of ' : 'incomplete, as of '}
                  <Time at={bucket_as_of} />
                </>
              }
            />
            <Card
              label="Spent today"
              value={<RoundMoney micro={ofToday?.cost_micro_usd ?? 0} />}
              detail="since 00:00 UTC"
            />
            <Card
              label="Requests this month"
              value={count(total.requests)}
              detail={`${count(ofToday?.requests ?? 0)} today`}
            />
            <Card
              label="Failed attempts this month"
              value={count(total.failed_attempts)}
              detail={`${percent(total.failed_attempts, total.attempts)} of attempts`}
            />
            <Card
              label="Input read from caches"
              value={percent(
                total.cache_read_tokens,
                total.input_tokens + total.cache_read_tokens + total.cache_write_tokens,
              )}
              detail="of input tokens"
            />
          </Cards>
        );
      }}
    </Loaded>
  );
}

function Budget() {
  const query = api.useQuery('get', '/api/v1/usage');
  return (
    <Section title="Your budget">
      <Loaded query={query}>
        {({ limit_micro_usd: limit, bucket_spent_micro_usd: spent, headroom_micro_usd, reset, pooled }) => (
          <Cards>
            <Card
              label={pooled ? 'Spent by all who share it' : 'Spent'}
              value={<RoundMoney micro={spent} />}
              detail={
                limit === null ? (
                  'no limit'
                ) : (
                  <>
                    of <Money micro={limit} />
                    <LimitBar spent={spent} limit={limit} label="Spent of the limit" />
                  </>
                )
              }
            />
            <Card label="Left before a request is refused" value={<Money micro={headroom_micro_usd} />} />
            <Card
              label="Starts again"
              value={reset ? `in ${span(new Date(reset).getTime() - Date.now())}` : 'never'}
              detail={reset && <Time at={reset} />}
            />
          </Cards>
        )}
      </Loaded>
    </Section>
  );
}

interface Finding {
  readonly tone: Tone;
  readonly what: string;
  readonly to: string;
}

/** What an operator should look at, of four lists. */
function Attention() {
  const proxies = api.useQuery('get', '/api/v1/proxies', { params: { query: {} } });
  const connectors = api.useQuery('get', '/api/v1/connectors', { params: { query: { page_size: 500 } } });
  const quarantine = api.useQuery('get', '/api/v1/quarantine', {
    params: { query: { state: 'held', page_size: 1 } },
  });
  const feed = api.useQuery('get', '/api/v1/catalog/feed');
  const failed = [proxies, connectors, quarantine, feed].find(({ error, data }) => error && !data);
  const isLoaded = proxies.data && connectors.data && quarantine.data && feed.data;
  return (
    <Section title="Needs attention">
      <Loaded
        query={{
          data: isLoaded && {
            proxies: proxies.data,
            connectors: connectors.data,
            quarantine: quarantine.data,
            feed: feed.data,
          },
          error: failed?.error,
          refetch: (failed ?? proxies).refetch as never,
        }}
      >
        {(lists) => (
          <Table<Finding>
            caption="Needs attention"
            rows={findings(lists)}
            rowKey={({ what }) => what}
            columns={[
              {
                title: 'State',
                value: ({ tone }) => <Badge tone={tone}>{tone === 'bad' ? 'act' : 'look'}</Badge>,
              },
              {
                title: 'What',
                value: ({ what, to }) => (
                  <Link to={to}>
                    <Name text={what} />
                  </Link>
                ),
                wrap: true,
              },
            ]}
            empty={<p>Nothing needs attention.</p>}
          />
        )}
      </Loaded>
    </Section>
  );
}

interface Lists {
  readonly proxies: { readonly data: readonly unknown[] };
  readonly connectors: {
    readonly data: readonly {
      name: string;
      enabled: boolean;
      usable: boolean;
      unusable_reason: string | null;
    }[];
  };
  readonly quarantine: { readonly data: readonly unknown[] };
  readonly feed: { readonly state: string; readonly error: string | null; readonly held_changes: number };
}

function findings({ proxies, connectors, quarantine, feed }: Lists): Finding[] {
  const found: Finding[] = [];
  if (proxies.data.length === 0)
    found.push({ tone: 'bad', what: 'No proxy is connected: no request is served.', to: '/health' });
  for (const { name, unusable_reason } of connectors.data.filter(
    ({ enabled, usable }) => enabled && !usable,
  )) {
    found.push({
      tone: 'bad',
      what: `The connector ${name} can't be used: ${unusable_reason ?? 'unknown'}`,
      to: '/connectors',
    });
  }
  if (quarantine.data.length > 0)
    found.push({ tone: 'bad', what: 'Usage is held in quarantine: the ledger lacks it.', to: '/health' });
  if (feed.error)
    found.push({ tone: 'warn', what: `The feed of prices fails: ${feed.error}`, to: '/models' });
  if (feed.held_changes > 0)
    found.push({
      tone: 'warn',
      what: `${feed.held_changes} changes of prices wait for a decision.`,
      to: '/models',
    });
  return found;
}

/** Spend of the month added up, against the limit that governs oneself, if it is one of the month. */
function BurnDown() {
  const whoami = useWhoami();
  const from = monthStart(new Date());
  const usage = api.useQuery('get', '/api/v1/usage');
  const spend = useSpend({ from, bucket: 'day', group_by: 'model', limit: 5 });
  const { limit_micro_usd: limit, window_start, pooled } = usage.data ?? {};
  const counts =
    !readsAll(whoami) && pooled === false && window_start && Date.parse(window_start) === Date.parse(from);
  return (
    <Section title="Spend of the month, added up (UTC)">
      <Loaded query={spend}>
        {({ data }) => {
          if (data.length === 0) return <p>Nothing was spent this month.</p>;
          const sums = data.map((row) => ({
            at: row.bucket_start ?? from,
            series: row.others ? 'others' : (row.group.model ?? 'none'),
            value: row.cost_micro_usd,
          }));
          return (
            <LazyChart
              chart={arrange(sums, { bucket: 'day', cumulative: true, others: 'others' })}
              label="Spend of the month, added up by day; the table below has the sums of the models"
              cumulative
              format={roughMoney}
              timeLabel={(at) => bucketLabel(at, 'day')}
              {...(counts && limit != null && { limit })}
            />
          );
        }}
      </Loaded>
    </Section>
  );
}

function TopModels() {
  const query = useSpend({ from: monthStart(new Date()), group_by: 'model', limit: 10 });
  return (
    <Section title="Models by cost, this month">
      <Loaded query={query}>
        {({ data, total }) => (
          <SortedTable
            caption="Models by cost, this month"
            rows={data}
            rowKey={({ group, others }) => `${others} ${group.model}`}
            sort="-Cost"
            columns={[
              {
                title: 'Model',
                value: ({ group, others }) => (others ? 'others' : <Name text={group.model ?? 'none'} />),
                by: ({ group }) => group.model ?? '',
              },
              {
                title: 'Requests',
                value: (row) => count(row.requests),
                by: (row) => row.requests,
                end: true,
              },
              {
                title: 'Failed attempts',
                value: (row) => count(row.failed_attempts),
                by: (row) => row.failed_attempts,
                end: true,
              },
              {
                title: 'Cost',
                value: (row) => <Money micro={row.cost_micro_usd} />,
                by: (row) => row.cost_micro_usd,
                end: true,
              },
              {
                title: 'Share',
                value: (row) => percent(row.cost_micro_usd, total?.cost_micro_usd ?? 0),
                end: true,
              },
            ]}
            empty={<p>No request yet this month. Connect a client to begin.</p>}
          />
        )}
      </Loaded>
    </Section>
  );
}
