import { bodyOf, type components } from '@weighbridge/client';
import { Command, Option } from 'commander';
import {
  attributeOf,
  collectList,
  limitOf,
  listOptions,
  parsePositiveInteger,
  parseTime,
} from '../resources/parsers.ts';
import { type Column, time, usd } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { exportFocus, FOCUS_FORMATS } from './focus.ts';

type Row = components['schemas']['SpendRow'];
type Total = components['schemas']['SpendTotal'];

/** The filters of spend, by the name of the option. */
const FILTERS = {
  principal: 'principal_id',
  key: 'key_id',
  policy: 'policy_id',
  model: 'model',
  provider: 'provider',
  user: 'user',
  team: 'team',
  'team-id': 'team_id',
  project: 'project',
  env: 'env',
  label: 'label',
} as const;

export function spendCommand(cli: Cli): Command {
  const command = listOptions(new Command('spend'))
    .description('spend by any dimension and time; without --from, of this month')
    .option('--by <dimensions>', 'group by these, such as principal,key,model,team,label:tier', collectList)
    .addOption(
      new Option('--bucket <bucket>', 'one row per hour, day, week (from Monday) or month').choices([
        'hour',
        'day',
        'week',
        'month',
      ]),
    )
    .option('--from <time>', 'start: a date-time', parseTime(cli.now))
    .option('--to <time>', 'end: a date-time', parseTime(cli.now))
    .option('--timezone <name>', 'time zone of the days, weeks and months')
    .option(
      '--sort <measure>',
      'order, such as -cost (the largest first), -requests, -errors, -output_tokens',
    )
    .option(
      '--top <n>',
      'only the first N groups (by --sort, default -cost); the rest as one row',
      parsePositiveInteger,
    )
    .option('--compare', 'beside each row, what it was in the range of the same length before');
  for (const name of Object.keys(FILTERS)) command.option(`--${name} <value>`, `only this ${name}`);
  return command
    .option('--csv', 'print all rows as CSV')
    .option('--focus', 'print whole days (UTC) as a FOCUS 1.2 dataset; by default yesterday')
    .addOption(
      new Option('--format <format>', 'with --focus: csv (default), or parquet with --output').choices(
        FOCUS_FORMATS,
      ),
    )
    .option(
      '-o, --output <folder>',
      'with --focus: write a file for each day, but for days that have one; repeat it to go on where it stopped',
    )
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge spend --by team,model\n  weighbridge spend --by key --top 10 --compare\n  weighbridge spend --bucket day --from 2026-11-01T00:00:00Z --provider openai --csv > november.csv\n  weighbridge spend --focus --from 2026-11-01 --to 2026-12-01 -o focus/ --format parquet',
    )
    .action(async (options, self: Command) => {
      const session = await openSession(cli, self);
      if (options.csv && session.json) throw new UsageError('Use either --csv or --json, not both.');
      const filters = Object.entries(FILTERS).map(
        ([name, field]) => [field, options[attributeOf(name)]] as const,
      );
      const ofFocus = ['output', 'format'].find((name) => options[name] !== undefined);
      if (ofFocus && !options.focus) throw new UsageError(`--${ofFocus} is for --focus.`);
      const query = {
        ...Object.fromEntries(filters.filter(([, value]) => value !== undefined)),
        ...(options.by && { group_by: options.by.join(',') }),
        ...(options.bucket && { bucket: options.bucket }),
        ...(options.from && { from: options.from }),
        ...(options.to && { to: options.to }),
        ...(options.timezone && { timezone: options.timezone }),
        ...(options.sort && { sort: options.sort }),
        ...(options.top && { limit: options.top }),
        ...(options.compare && { compare: 'previous' as const }),
      };
      if (options.focus) {
        const { from, to, ...others } = query;
        const { output: folder, format = 'csv' } = options;
        await exportFocus(session, { from, to, others, folder, format });
        return;
      }
      if (options.csv) {
        const csv = session.client.GET('/api/v1/spend', {
          params: { query },
          headers: { accept: 'text/csv' },
          parseAs: 'text',
        });
        session.out(String(await bodyOf(csv)).replace(/\r?\n$/, ''));
        return;
      }
      const report: { complete: boolean; lacksOther: boolean; as_of: string; total?: Total } = {
        complete: true,
        lacksOther: false,
        as_of: '',
      };
      const items = await firstItems(session, limitOf(options), async (page) => {
        // Without `accept`, the response is JSON, never CSV.
        const rows = (await bodyOf(
          session.client.GET('/api/v1/spend', {
            params: { query: options.top ? query : { ...query, ...page } },
          }),
        )) as components['schemas']['SpendReport'];
        report.complete = rows.complete;
        report.lacksOther = rows.lacks_other;
        report.as_of = rows.bucket_as_of;
        if (rows.total) report.total = rows.total;
        return rows;
      });
      const names: readonly string[] = options.by ?? [];
      session.showList(items, columns(names, options));
      if (!session.json && report.total) session.err(totalText(report.total));
      if (report.lacksOther) {
        session.err(
          'Some usage of this filter may count under (other). To see it, group by the value instead, or list the requests.',
        );
      } else if (!report.complete) session.err(`Usage after ${time(report.as_of)} may still be missing.`);
    });
}

/** The id of a group with its name, if it has one. */
function groupText({ group, names, others }: Row, dimension: string): string | null {
  if (others) return 'others';
  const name = names[dimension];
  const value = group[dimension] ?? null;
  return name == null ? value : `${name} (${value})`;
}

function columns(
  names: readonly string[],
  options: { readonly bucket?: string; readonly compare?: boolean },
): Column<Row>[] {
  return [
    ...(options.bucket ? [['FROM', (row) => time(row.bucket_start)] satisfies Column<Row>] : []),
    ...names.map((name): Column<Row> => [name.toUpperCase(), (row) => groupText(row, name)]),
    ['SPENT', (row) => usd(row.cost_micro_usd)],
    ...(options.compare
      ? [['BEFORE', (row) => usd(row.previous?.cost_micro_usd ?? 0)] satisfies Column<Row>]
      : []),
    ['REQUESTS', (row) => row.requests],
    ['ATTEMPTS', (row) => row.attempts],
    ['FAILED ATTEMPTS', (row) => row.failed_attempts],
    ['INPUT', inputTokens],
    ['OUTPUT', (row) => row.output_tokens],
  ];
}

function inputTokens(row: Total): number {
  return row.input_tokens + row.cache_read_tokens + row.cache_write_tokens + row.cache_write_1h_tokens;
}

function totalText(total: Total): string {
  const before = total.previous ? `, before ${usd(total.previous.cost_micro_usd)}` : '';
  return `Total: ${usd(total.cost_micro_usd)}${before}, ${total.requests} requests, ${total.attempts} attempts.`;
}
