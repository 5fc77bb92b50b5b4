import { bodyOf, type components } from '@weighbridge/client';
import { Command } from 'commander';
import { printable, time, usd } from '../session/output.ts';
import { type Cli, openSession } from '../session/session.ts';

type Sums = components['schemas']['SummarySums'];
type Budget = components['schemas']['SummaryBudget'];
type Latency = components['schemas']['SummaryLatency'];

export function summaryCommand(cli: Cli): Command {
  return new Command('summary')
    .description('spend today and this month, budgets, latency, and what needs attention')
    .addHelpText(
      'after',
      '\nDays and months are of UTC.\n\nExamples:\n  weighbridge summary\n  weighbridge summary --json',
    )
    .action(async (_options, command: Command) => {
      const session = await openSession(cli, command);
      const summary = await bodyOf(session.client.GET('/api/v1/summary'));
      const { reach, today, month, budgets, recent, complete, bucket_as_of } = summary;
      session.showOne(summary, {
        of: { all: 'all usage', teams: 'your teams and you', own: 'you' }[reach],
        today: sumsText(today),
        'this month': sumsText(month),
        ...Object.fromEntries(budgets.map((budget) => [`budget ${ownerOf(budget)}`, budgetText(budget)])),
        'first token (p50, p95)': latencyText(recent.first_token_ms),
        'whole answer (p50, p95)': latencyText(recent.duration_ms),
        'overhead (p50, p95)': overheadText(summary.overhead),
        'answers from the cache': `${recent.cache_hits} of the last ${recent.answers}`,
        'as of': `${time(bucket_as_of)}${complete ? '' : ', incomplete'}`,
      });
      if (session.json) return;
      for (const { level, message } of summary.attention) session.err(printable(`${level}: ${message}`));
    });
}

function sumsText({ cost_micro_usd, requests, failed_attempts }: Sums): string {
  return `${usd(cost_micro_usd)} for ${requests} requests, ${failed_attempts} failed attempts`;
}

function ownerOf({ policy_name, principal_id, key_name, key_id, team_name }: Budget): string {
  const owner = key_name ?? key_id ?? principal_id ?? team_name;
  return owner === null ? policy_name : `${policy_name} of ${owner}`;
}

function budgetText({ spent_micro_usd, limit_micro_usd, reset }: Budget): string {
  const until = reset === null ? '' : `, until ${time(reset)}`;
  return `${usd(spent_micro_usd)} of ${usd(limit_micro_usd)}${until}`;
}

function overheadText(overhead: components['schemas']['SummaryOverhead'] | null): string | null {
  if (!overhead) return null;
  const { p50_ms, p95_ms, requests, window_ms } = overhead;
  const minutes = Math.max(1, Math.round(window_ms / 60_000));
  return `${p50_ms} ms, ${p95_ms} ms of ${requests} requests in ${minutes} min`;
}

function latencyText(latency: Latency | null): string | null {
  return latency && `${latency.p50} ms, ${latency.p95} ms`;
}
