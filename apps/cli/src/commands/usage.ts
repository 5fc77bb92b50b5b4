import { bodyOf, type components } from '@weighbridge/client';
import { Command } from 'commander';
import { time, usd } from '../session/output.ts';
import { type Cli, openSession } from '../session/session.ts';

export function usageCommand(cli: Cli): Command {
  return new Command('usage')
    .description('spend of a key against its governing policy')
    .argument('[key_id]', 'default: the calling key')
    .addHelpText('after', '\nExamples:\n  weighbridge usage\n  weighbridge usage key_… --json')
    .action(async (key_id: string | undefined, _options, command: Command) => {
      const session = await openSession(cli, command);
      const report = await bodyOf(
        key_id === undefined
          ? session.client.GET('/api/v1/usage')
          : session.client.GET('/api/v1/keys/{key_id}/usage', { params: { path: { key_id } } }),
      );
      session.showOne(report, {
        policy: `${report.policy_id} (by ${report.source}, ${report.active ? 'enforced' : 'not enforced'})`,
        spent: `${usd(report.bucket_spent_micro_usd)} of ${usd(report.limit_micro_usd)}`,
        ...(report.override && {
          override: `${report.override.id} until ${time(report.override.ends_at)}: ${report.override.reason}`,
        }),
        remaining: usd(report.remaining_micro_usd),
        headroom: headroomText(report),
        'counted per': report.counter_scope,
        window: `${time(report.window_start)} to ${report.reset === null ? 'no end' : time(report.reset)}`,
        'spent by principal': `${usd(report.principal_spent_micro_usd)}${report.principal_spent_complete ? '' : ' or more'}`,
        ...Object.fromEntries(report.limits.map((limit) => [`limit ${limit.limit_name}`, limitText(limit)])),
        'as of': time(report.bucket_as_of),
      });
    });
}

type Report = components['schemas']['UsageReport'];

function limitText(limit: Report['limits'][number]): string {
  const { spent_micro_usd: spent, limit_micro_usd: most, models, enforcement, reset, override } = limit;
  return [
    `${usd(spent)} of ${usd(most)}`,
    ...(models.length > 0 ? [`for ${models.join(', ')}`] : []),
    ...(enforcement === 'enforce' ? [] : ['not enforced']),
    ...(override ? [`override until ${time(override.ends_at)}`] : []),
    ...(reset === null ? [] : [`until ${time(reset)}`]),
  ].join(', ');
}

function headroomText({ headroom_micro_usd: left, headroom_counter: counter }: Report): string {
  if (!counter?.is_parent)
    return counter?.limit_name ? `${usd(left)} (of the limit ${counter.limit_name})` : usd(left);
  return `${usd(left)} (of the parent policy${counter.policy_id === null ? '' : ` ${counter.policy_id}`})`;
}
