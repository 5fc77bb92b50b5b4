import { bodyOf, type components } from '@weighbridge/client';
import { Command } from 'commander';
import { printable, time } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { limitOf, listOptions } from './options.ts';

type Proxy = components['schemas']['Proxy'];

export function proxiesCommand(cli: Cli): Command {
  const proxies = new Command('proxies').description('proxies, and how much of their usage has arrived');

  listOptions(proxies.command('list'))
    .description('list proxies that may serve or whose usage may be missing, oldest first')
    .option('--gone', 'also list proxies that are gone and whose usage has all arrived')
    .addHelpText('after', '\nExample:\n  weighbridge proxies list --json')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = options.gone ? { all: true } : {};
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
    .description('accept that the missing usage of a lost proxy will never arrive')
    .addHelpText(
      'after',
      '\nIf its spool folder still exists, replay that first: weighbridge spool replay DIR.\n\nExample:\n  weighbridge proxies retire 019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b',
    )
    .action(async (proxy_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { proxy_id } };
      session.showOne(await bodyOf(session.client.POST('/api/v1/proxies/{proxy_id}/retire', { params })));
    });

  return proxies;
}

/** The sum over all shards. */
function total(proxy: Proxy, count: 'recorded_n' | 'missing'): number | undefined {
  return proxy.usage?.shards.reduce((sum, shard) => sum + shard[count], 0);
}
