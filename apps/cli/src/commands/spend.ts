import { bodyOf, type components } from '@weighbridge/client';
import { Command, Option } from 'commander';
import { type Column, time, usd } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { collectList, limitOf, listOptions, parseTime } from './options.ts';

type Row = components['schemas']['SpendRow'];

/** The filters of spend, by the name of the option. */
const FILTERS = {
  principal: 'principal_id',
  key: 'key_id',
  policy: 'policy_id',
  model: 'model',
  provider: 'provider',
  user: 'user',
  team: 'team',
  project: 'project',
  env: 'env',
  label: 'label',
} as const;

export function spendCommand(cli: Cli): Command {
  const command = listOptions(new Command('spend'))
    .description('spend by any dimension and time; without --from, of this month')
    .option('--by <dimensions>', 'group by these, such as principal,key,model,team,label:tier', collectList)
    .addOption(
      new Option('--bucket <bucket>', 'one row per hour, day or month').choices(['hour', 'day', 'month']),
    )
    .option('--from <time>', 'start: a date-time', parseTime(cli.now))
    .option('--to <time>', 'end: a date-time', parseTime(cli.now))
    .option('--timezone <name>', 'time zone of the days and months');
  for (const name of Object.keys(FILTERS)) command.option(`--${name} <value>`, `only this ${name}`);
  return command
    .option('--csv', 'print all rows as CSV')
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge spend --by team,model\n  weighbridge spend --bucket day --from 2026-11-01T00:00:00Z --provider openai --csv > november.csv',
    )
    .action(async (options, self: Command) => {
      const session = await openSession(cli, self);
      if (options.csv && session.json) throw new UsageError('Use either --csv or --json, not both.');
      const filters = Object.entries(FILTERS).map(([name, field]) => [field, options[name]] as const);
      const query = {
        ...Object.fromEntries(filters.filter(([, value]) => value !== undefined)),
        ...(options.by && { group_by: options.by.join(',') }),
        ...(options.bucket && { bucket: options.bucket }),
        ...(options.from && { from: options.from }),
        ...(options.to && { to: options.to }),
        ...(options.timezone && { timezone: options.timezone }),
      };
      if (options.csv) {
        const csv = session.client.GET('/api/v1/spend', {
          params: { query },
          headers: { accept: 'text/csv' },
          parseAs: 'text',
        });
        session.out(String(await bodyOf(csv)).replace(/\r?\n$/, ''));
        return;
      }
      const report = { complete: true, as_of: '' };
      const items = await firstItems(session, limitOf(options), async (page) => {
        // Without `accept`, the response is JSON, never CSV.
        const rows = (await bodyOf(
          session.client.GET('/api/v1/spend', { params: { query: { ...query, ...page } } }),
        )) as components['schemas']['SpendReport'];
        report.complete = rows.complete;
        report.as_of = rows.bucket_as_of;
        return rows;
      });
      const groups: Column<Row>[] = ((options.by ?? []) as string[]).map((name) => [
        name.toUpperCase(),
        ({ group }) => group[name] ?? null,
      ]);
      session.showList(items, [
        ...(options.bucket ? [['FROM', (row) => time(row.bucket_start)] satisfies Column<Row>] : []),
        ...groups,
        ['SPENT', (row) => usd(row.cost_micro_usd)],
        ['REQUESTS', (row) => row.requests],
        ['ERRORS', (row) => row.errors],
        [
          'INPUT',
          (row) =>
            row.input_tokens + row.cache_read_tokens + row.cache_write_tokens + row.cache_write_1h_tokens,
        ],
        ['OUTPUT', (row) => row.output_tokens],
      ]);
      if (!report.complete) session.err(`Usage after ${time(report.as_of)} may still be missing.`);
    });
}
