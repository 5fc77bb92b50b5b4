import { bodyOf } from '@weighbridge/client';
import { Command } from 'commander';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { limitOf, listOptions } from './options.ts';

export function evidenceCommand(cli: Cli): Command {
  return listOptions(new Command('evidence'))
    .description('how models performed recently, by workload type; how often a profile would choose each')
    .option('--profile <id>', 'only the targets of this profile, with how often each would be tried first')
    .option('--workload-type <text>', 'as in X-Svc-Workload-Type; empty for requests without one')
    .option('--model <model>', 'only this model')
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge evidence --profile prf_…\n  weighbridge evidence --workload-type summaries --json',
    )
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = {
        ...(options.profile && { profile_id: options.profile }),
        ...(options.workloadType !== undefined && { workload_type: options.workloadType }),
        ...(options.model && { model: options.model }),
      };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/evidence', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, [
        ['WORKLOAD TYPE', ({ workload_type }) => workload_type],
        ['MODEL', ({ model }) => model],
        ['REQUESTS', ({ requests }) => requests.toFixed(1)],
        ['SUCCESS', ({ success_rate: rate }) => percent(rate)],
        ['LATENCY', ({ mean_latency_ms: ms }) => milliseconds(ms)],
        ['FIRST TOKEN', ({ mean_time_to_first_token_ms: ms }) => milliseconds(ms)],
        ['COST', ({ mean_cost_micro_usd: cost }) => cost && `$${(cost / 1_000_000).toFixed(6)}`],
        ['SCORE', ({ mean_score: score }) => score?.toFixed(2)],
        ...(options.profile
          ? [['CHOSEN', ({ probability }: { probability: number | null }) => percent(probability)] as const]
          : []),
      ]);
    });
}

function percent(share: number | null): string | null {
  return share === null ? null : `${(share * 100).toFixed(1)} %`;
}

function milliseconds(ms: number | null): string | null {
  return ms === null ? null : `${ms.toFixed(0)} ms`;
}
