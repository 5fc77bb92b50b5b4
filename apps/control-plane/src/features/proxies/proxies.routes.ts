import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { listProxies, type ProducerDeps, retireProxy } from './producers.service.ts';

const EPOCH = '019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b';

const Usage = Nullable(
  Type.Object(
    {
      state: OneOf(['open', 'closed', 'lost', 'retired'], {
        description:
          'open: more is to come, or awaited; closed: the ledger has all of it; lost: nobody answers for it any more; retired: an operator accepted that.',
      }),
      mark_at: Type.String({
        format: 'date-time',
        description: 'All that it had settled until then is in the ledger.',
      }),
      ended_at: Nullable(DateTime),
      superseded_by: Nullable(Type.String({ description: 'The id of the proxy that took its spool over.' })),
      retired_by: Nullable(Type.String({ description: 'The principal that accepted its loss.' })),
      shards: Type.Array(
        Type.Object({
          shard: Type.Integer({ minimum: 0 }),
          recorded_n: Type.Integer({ description: 'The ledger has all its events up to this one.' }),
          last_n: Nullable(Type.Integer({ description: 'Its last event, once it has said so.' })),
          missing: Type.Integer({
            description: 'Events that are known to be, by later ones or by last_n, and are not there.',
          }),
          missing_ranges: Type.Array(Type.String({ examples: ['7-9'] }), {
            description: 'Which; the first 20 ranges.',
          }),
          gap_since: Nullable(DateTime),
        }),
        { description: 'One for each part of the usage stream that it wrote to.' },
      ),
      advice: Nullable(Type.String({ description: 'What an operator can do about it.' })),
    },
    { title: 'ProxyUsage' },
  ),
);

const ProxyResource = Type.Object(
  {
    id: Type.String({ examples: [EPOCH] }),
    name: Type.String({ description: 'The host or pod that it runs on.' }),
    version: Type.String({ description: 'Empty where only its usage is still known.' }),
    applied_revision: Type.Integer(),
    lag: Type.Integer({ description: 'How many revisions it is behind.' }),
    in_flight_requests: Type.Integer(),
    waiting_usage_bytes: Type.Integer({ description: 'Usage that it has not handed over yet.' }),
    connected_at: DateTime,
    last_seen_at: DateTime,
    may_serve_until: DateTime,
    producer_id: Nullable(Type.String({ description: 'The spool that it writes its usage to.' })),
    usage: Usage,
  },
  { title: 'Proxy' },
);

export function proxyRoutes(app: App, deps: ProducerDeps): void {
  app.get(
    '/proxies',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'listProxies',
        summary: 'The proxies that may serve now, or whose usage may not all be here',
        description:
          'What each has applied, and how much of its usage the ledger has. A proxy whose usage is `open` holds `bucket_as_of`; one whose usage is `lost` makes spend incomplete.',
        querystring: Strict({
          ...PageQuery,
          all: Type.Optional(
            OneOf(['true', 'false'], { description: 'Also those that are gone with nothing left behind.' }),
          ),
        }),
        response: { 200: Page(ProxyResource) },
      },
    },
    async (request) => await listProxies(deps, request.query),
  );

  app.post(
    '/proxies/:proxy_id/retire',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'retireProxy',
        summary: 'Accept that the rest of the usage of a lost proxy never comes',
        description:
          'Spend is then reported as complete without it. 409 unless its usage is `lost`. What comes later all the same is recorded.',
        params: Type.Object({ proxy_id: Type.String() }),
        response: { 200: ProxyResource },
      },
    },
    async (request) => await retireProxy(deps, request.caller, request.params.proxy_id),
  );
}
