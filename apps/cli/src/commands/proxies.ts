import type { components } from '@weighbridge/client';
import { listProxies, retireProxy } from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import { printable, time } from '../session/output.ts';
import type { Cli } from '../session/session.ts';

type Proxy = components['schemas']['Proxy'];

export function proxiesCommand(cli: Cli): Command {
  const proxies = new Command('proxies').description('proxies, and how much of their usage has arrived');
  addList(proxies.command('list'), cli, listProxies, {
    description: 'list proxies that may serve or whose usage may be missing, oldest first',
    query: {
      all: { flag: 'gone', text: 'also list proxies that are gone and whose usage has all arrived' },
    },
    examples: ['weighbridge proxies list --json'],
    columns: [
      ['ID', (proxy) => proxy.id],
      ['NAME', (proxy) => proxy.name],
      ['VERSION', (proxy) => proxy.version],
      ['BEHIND', (proxy) => proxy.lag],
      ['LAST SEEN', (proxy) => time(proxy.last_seen_at)],
      ['USAGE', (proxy) => proxy.usage?.state],
      ['AS OF', (proxy) => time(proxy.usage?.mark_at ?? null)],
      ['RECORDED', (proxy) => total(proxy, 'recorded_n')],
      ['MISSING', (proxy) => total(proxy, 'missing')],
    ],
    after: (session, items) => {
      for (const { id, name, usage } of items) {
        if (usage?.advice) session.err(printable(`${name || id}: ${usage.advice}`));
      }
    },
  });
  addCall(proxies.command('retire <proxy_id>'), cli, retireProxy, {
    description: 'accept that the missing usage of a lost proxy will never arrive',
    help: '\nIf its spool folder still exists, replay that first: weighbridge spool replay DIR.',
    examples: ['weighbridge proxies retire 019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b'],
  });
  return proxies;
}

/** The sum over all shards. */
function total(proxy: Proxy, count: 'recorded_n' | 'missing'): number | undefined {
  return proxy.usage?.shards.reduce((sum, shard) => sum + shard[count], 0);
}
