import { Link, useNavigate } from '@tanstack/react-router';
import type { components } from '@weighbridge/client';
import { api } from '../api/client.ts';
import { readsAll, useWhoami } from '../app/session.ts';
import { Badge, LimitBar, Money, Name, RoundMoney, Time } from '../ui/bits.tsx';
import { LazyChart } from '../ui/LazyChart.tsx';
import { Card, Cards, Loaded, Note, Page, Section } from '../ui/Page.tsx';
import { arrange } from '../ui/series.ts';
import { Table } from '../ui/Table.tsx';
import { count, fineMilliseconds, milliseconds, percent, roughMoney, span } from '../ui/text.ts';
import { atThisPace } from './pace.ts';
import { bucketLabel } from './period.ts';

type Summary = components['schemas']['Summary'];
type Budget = components['schemas']['SummaryBudget'];
type Attention = components['schemas']['Attention'];

const WHOSE = {
  all: 'The whole service, this month (UTC).',
  teams: 'Your teams and you, this month (UTC).',
  own: 'Your own use, this month (UTC).',
} as const;

/** What one request to the service says of the month. */
export function Overview() {
  const navigate = useNavigate();
  const query = api.useQuery('get', '/api/v1/summary');
  return (
    <Page title="Overview" lead={query.data ? WHOSE[query.data.reach] : 'This month (UTC).'}>
      <Loaded
        query={query}
        narrower={{
          label: 'Usage of the last 7 days',
          run: () => void navigate({ to: '/usage', search: { range: '7' } as never }),
        }}
      >
        {(summary) => (
          <>
            <Figures of={summary} />
            <NeedsAttention found={summary.attention} />
            <Budgets of={summary} />
            <SpendOfMonth of={summary} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Figures({ of: { reach, today, month, recent, overhead, bucket_as_of, complete } }: { of: Summary }) {
  const input = month.input_tokens + month.cache_read_tokens + month.cache_write_tokens;
  return (
    <Cards>
      <Card
        label="Spent this month"
        value={<RoundMoney micro={month.cost_micro_usd} />}
        detail={
          <>
            {complete ? 'as of ' : 'incomplete, as of '}
            <Time at={bucket_as_of} />
          </>
        }
      />
      <Card
        label="Spent today"
        value={<RoundMoney micro={today.cost_micro_usd} />}
        detail="since 00:00 UTC"
      />
      <Card
        label="Requests this month"
        value={count(month.requests)}
        detail={`${count(today.requests)} today`}
      />
      <Card
        label="Failed attempts this month"
        value={count(month.failed_attempts)}
        detail={`${percent(month.failed_attempts, month.attempts)} of attempts, ${count(today.failed_attempts)} today`}
      />
      <Card
        label="First token, p50"
        value={recent.first_token_ms ? milliseconds(recent.first_token_ms.p50) : '–'}
        detail={
          recent.first_token_ms
            ? `p95 ${milliseconds(recent.first_token_ms.p95)}; streams, last 24 h`
            : 'no stream in 24 hours'
        }
      />
      <Card
        label="Complete response, p50"
        value={recent.duration_ms ? milliseconds(recent.duration_ms.p50) : '–'}
        detail={
          recent.duration_ms
            ? `p95 ${milliseconds(recent.duration_ms.p95)}; all responses, last 24 h`
            : 'no response in 24 hours'
        }
      />
      {reach === 'all' && <OverheadCard of={overhead} />}
      <Card
        label="Responses from the cache"
        value={percent(recent.cache_hits, recent.answers)}
        detail={`vendors’ caches: ${percent(month.cache_read_tokens, input)} of input`}
      />
    </Cards>
  );
}

/** The time that this service adds to a request. */
function OverheadCard({ of }: { of: Summary['overhead'] }) {
  const label = 'Overhead of the proxies, p50';
  if (!of) return <Card label={label} value="–" detail="no request in the last minutes" />;
  const { p50_ms, p95_ms, requests, window_ms } = of;
  return (
    <Card
      label={label}
      value={fineMilliseconds(p50_ms)}
      detail={`p95 ${fineMilliseconds(p95_ms)}; ${count(requests)} requests in ${span(Math.max(window_ms, 60_000))}`}
    />
  );
}

/** The page on which each can be looked into and changed. */
const PAGE_OF: Readonly<Record<Attention['kind'], string>> = {
  no_proxy: '/health',
  proxies_silent: '/health',
  proxies_lost: '/health',
  spools_filling: '/health',
  ledger_behind: '/health',
  ledger_gap: '/health',
  quarantine: '/health',
  connector_unusable: '/connectors',
  connector_down: '/connectors',
  price_missing: '/models',
  prices_old: '/models',
  feed_failing: '/models',
  feed_changes_held: '/models',
  budget_low: '/policies',
  keys_expiring: '/keys',
};

const LEVELS: Readonly<Record<Attention['level'], string>> = { act: 'urgent', look: 'check' };

function NeedsAttention({ found }: { found: readonly Attention[] }) {
  const all = readsAll(useWhoami());
  // Without a role that reads all, one sees no policies; the budget is on this page.
  const pageOf = (kind: Attention['kind']) => (!all && kind === 'budget_low' ? '/' : PAGE_OF[kind]);
  return (
    <Section title="Needs attention">
      <Table<Attention>
        caption="Needs attention"
        rows={found}
        rowKey={({ kind, message }) => `${kind} ${message}`}
        columns={[
          {
            title: 'State',
            value: ({ level }) => <Badge tone={level === 'act' ? 'bad' : 'warn'}>{LEVELS[level]}</Badge>,
          },
          {
            title: 'What',
            value: ({ kind, message }) => (
              <Link to={pageOf(kind)}>
                <Name text={message} />
              </Link>
            ),
            wrap: true,
          },
        ]}
        empty={<p>Nothing needs attention.</p>}
      />
    </Section>
  );
}

/** Each budget with what it will have spent at the reset. */
function Budgets({ of: { budgets, reach, bucket_as_of } }: { of: Summary }) {
  const asOf = new Date(bucket_as_of);
  return (
    <Section title={reach === 'all' ? 'Budgets closest to their limits' : 'Budgets'}>
      <Table<Budget>
        caption="Budgets"
        rows={budgets}
        rowKey={(one) => `${one.policy_id} ${one.team_id} ${one.principal_id} ${one.key_id}`}
        columns={[
          {
            title: 'Budget',
            value: (one) => (
              <>
                <Name text={one.policy_name} />
                <small>
                  <Name text={ownerOf(one)} />
                </small>
              </>
            ),
            wrap: true,
          },
          { title: 'Spent', value: ({ spent_micro_usd: micro }) => <RoundMoney micro={micro} />, end: true },
          {
            title: 'Limit',
            value: ({ limit_micro_usd: limit, spent_micro_usd: spent }) =>
              limit === null ? (
                'no limit'
              ) : (
                <>
                  <Money micro={limit} />
                  <LimitBar spent={spent} limit={limit} label="Spent of the budget" />
                </>
              ),
            end: true,
          },
          { title: 'Resets', value: ({ reset }) => (reset ? <Time at={reset} /> : 'never') },
          { title: 'At this pace', value: (one) => <Pace of={one} asOf={asOf} />, wrap: true },
        ]}
        empty={
          <p>
            {reach === 'all'
              ? 'No policy with a limit has spent anything in its present window.'
              : 'No budget governs your key.'}
          </p>
        }
      />
    </Section>
  );
}

function ownerOf({ principal_id, key_name, key_id, team_name }: Budget): string {
  return team_name ?? principal_id ?? key_name ?? key_id ?? 'all who share it';
}

function Pace({ of, asOf }: { of: Budget; asOf: Date }) {
  const pace = atThisPace(of, asOf);
  if (pace === undefined) return <>–</>;
  if (pace.kind === 'spent') return <Badge tone="bad">spent</Badge>;
  if (pace.kind === 'ends') {
    return (
      <>
        <Badge tone="warn">runs out</Badge> <Time at={pace.at} />
      </>
    );
  }
  return (
    <>
      <RoundMoney micro={pace.micro} /> at the reset
    </>
  );
}

function SpendOfMonth({ of: { days, budgets, reach } }: { of: Summary }) {
  // Others spend of a budget that is shared, and of all spend there is no one limit.
  const [budget] = budgets.filter(
    ({ principal_id, window_start }) => principal_id !== null && window_start === days[0]?.from,
  );
  const limit = reach === 'own' ? budget?.limit_micro_usd : undefined;
  const sums = days.map(({ from, cost_micro_usd: value }) => ({ at: from, series: 'Spend', value }));
  return (
    <Section
      title="Spend of the month, added up"
      actions={<Link to="/usage">Usage by model, key or team</Link>}
    >
      {days.some(({ cost_micro_usd }) => cost_micro_usd > 0) ? (
        <>
          <LazyChart
            chart={arrange(sums, { bucket: 'day', cumulative: true, others: '' })}
            label="Spend of the month, added up by day; the table below has each day"
            cumulative
            format={roughMoney}
            timeLabel={(at) => bucketLabel(at, 'day')}
            {...(limit != null && { limit })}
          />
          <Days of={days} />
        </>
      ) : (
        <Note>Nothing was spent this month. Connect a client to begin.</Note>
      )}
    </Section>
  );
}

function Days({ of }: { of: Summary['days'] }) {
  return (
    <details>
      <summary>Each day (UTC)</summary>
      <Table<Summary['days'][number]>
        caption="Spend of each day"
        rows={of.toReversed()}
        rowKey={({ from }) => from}
        columns={[
          { title: 'Day', value: ({ from }) => from.slice(0, 10) },
          { title: 'Requests', value: ({ requests }) => count(requests), end: true },
          { title: 'Cost', value: ({ cost_micro_usd: micro }) => <Money micro={micro} />, end: true },
        ]}
        empty=""
      />
    </details>
  );
}
