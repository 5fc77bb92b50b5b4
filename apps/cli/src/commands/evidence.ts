import { listEvidence } from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addList } from '../resources/calls.ts';
import type { Cli } from '../session/session.ts';

export function evidenceCommand(cli: Cli): Command {
  return addList(new Command('evidence'), cli, listEvidence, {
    description: 'how models performed recently, by workload type; how often a profile would choose each',
    query: {
      profile_id: {
        text: 'only the targets of this profile, with how often each would be tried first',
      },
      workload_type: { text: 'as in X-Svc-Workload-Type; empty for requests without one', mayBeEmpty: true },
    },
    examples: [
      'weighbridge evidence --profile prf_…',
      'weighbridge evidence --workload-type summaries --json',
    ],
    columns: (_last, { profile }) => [
      ['WORKLOAD TYPE', ({ workload_type }) => workload_type],
      ['MODEL', ({ model }) => model],
      ['REQUESTS', ({ requests }) => requests.toFixed(1)],
      ['SUCCESS', ({ success_rate: rate }) => percent(rate)],
      ['LATENCY', ({ mean_latency_ms: ms }) => milliseconds(ms)],
      ['FIRST TOKEN', ({ mean_time_to_first_token_ms: ms }) => milliseconds(ms)],
      ['COST', ({ mean_cost_micro_usd: cost }) => cost && `$${(cost / 1_000_000).toFixed(6)}`],
      ['SCORE', ({ mean_score: score }) => score?.toFixed(2)],
      ...(profile
        ? [['CHOSEN', ({ probability }: { probability: number | null }) => percent(probability)] as const]
        : []),
    ],
  });
}

function percent(share: number | null): string | null {
  return share === null ? null : `${(share * 100).toFixed(1)} %`;
}

function milliseconds(ms: number | null): string | null {
  return ms === null ? null : `${ms.toFixed(0)} ms`;
}
