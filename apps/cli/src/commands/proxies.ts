import { bodyOf, type components } from '@weighbridge/client';
import { Command } from 'commander';
import { printable, time } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { limitOf, listOptions } from './options.ts';

type Proxy = components['schemas']['Proxy'];

export function proxiesCommand(cli: Cli): Command {
  const proxies = new Command('proxies').description('the data planes, and how much of their usage is here');

  listOptions(proxies.command('list'))
    .description('list those that may serve, or whose usage may not all be here, the oldest first')
    .option('--gone', 'also those that are gone with nothing left behind')
    .addHelpText('after', '\nExample:\n  weighbridge proxies list --json')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = options.gone ? { all: 'true' as const } : {};
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/proxies', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, [
        ['ID', (proxy) => proxy.id],
        ['NAME', (proxy) => proxy.name],
        ['VERSION', (proxy) => proxy.version],
        ['BEHIND', (proxy) => proxy.lag],
        ['LAST SEEN', (proxy) => time(proxy.last_seen_at)],
        ['USAGE', (proxy) => proxy.usage?.state],
        ['AS OF', (proxy) => time(proxy.usage?.mark_at ?? null)],
        ['RECORDED', (proxy) => total(proxy, 'recorded_n')],
        ['MISSING', (proxy) => total(proxy, 'missing')],
      ]);
      if (session.json) return;
      for (const { id, name, usage } of items) {
        if (usage?.advice) session.err(printable(`${name || id}: ${usage.advice}`));
      }
    });

  proxies
    .command('retire <proxy_id>')
    .description('accept that the rest of the usage of a lost proxy never comes')
    .addHelpText(
      'after',
      '\nReplay its spool first, if the folder is there: weighbridge spool replay DIR.\n\nExample:\n  weighbridge proxies retire 019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b',
    )
    .action(async (proxy_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { proxy_id } };
      session.showOne(await bodyOf(session.client.POST('/api/v1/proxies/{proxy_id}/retire', { params })));
    });

  return proxies;
}

/** Over all shards; `recorded_n` of one is how many it has. */
function total(proxy: Proxy, count: 'recorded_n' | 'missing'): number | undefined {
  return proxy.usage?.shards.reduce((sum, shard) => sum + shard[count], 0);
}
