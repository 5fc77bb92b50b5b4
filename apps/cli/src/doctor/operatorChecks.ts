import { bodyOf, type components, pages } from '@weighbridge/client';
import type { Session } from '../session/session.ts';
import { type Finding, fail, ok, warn } from './finding.ts';
import { attempt } from './serviceChecks.ts';

type Proxy = components['schemas']['Proxy'];
type Connector = components['schemas']['Connector'];

const PAGE_SIZE = '500';
/** More would be a list, not a diagnosis. */
const MAX_PAGES = 4;
/** What comes out of order is there within seconds. */
const GAP_MS = 60_000;
/** A proxy is heard of each second. */
const SILENT_MS = 10_000;

/** What an operator's key lets one see: vendors' accounts, proxies, usage that is missing or was refused. */
export async function operatorChecks(
  session: Session,
  { live }: { readonly live: boolean },
): Promise<Finding[]> {
  const { client, now, version } = session;
  const proxies = await attempt('operator', () =>
    all((page_token) =>
      bodyOf(client.GET('/api/v1/proxies', { params: { query: { page_size: PAGE_SIZE, page_token } } })),
    ),
  );
  const connectors = await attempt('operator', () =>
    all((page_token) =>
      bodyOf(client.GET('/api/v1/connectors', { params: { query: { page_size: PAGE_SIZE, page_token } } })),
    ),
  );
  const held = await attempt('operator', () =>
    bodyOf(client.GET('/api/v1/quarantine', { params: { query: { state: 'held', page_size: '1' } } })),
  );
  return [
    ...(connectors.value
      ? await connectorFindings(session, connectors.value, live)
      : [connectors.finding('connectors')]),
    ...(proxies.value ? proxyFindings(proxies.value, now(), version) : [proxies.finding('proxies')]),
    held.value ? quarantineFinding(held.value.data.length > 0) : held.finding('quarantine'),
  ];
}

async function all<T>(page: Parameters<typeof pages<T>>[0]): Promise<T[]> {
  const items: T[] = [];
  let count = 0;
  for await (const data of pages<T>(page)) {
    items.push(...data);
    if (++count === MAX_PAGES) break;
  }
  return items;
}

async function connectorFindings(
  { client }: Session,
  connectors: readonly Connector[],
  live: boolean,
): Promise<Finding[]> {
  const enabled = connectors.filter((connector) => connector.enabled);
  if (enabled.length === 0) {
    return [
      fail('connectors', 'none is enabled', 'Make one: weighbridge apply -f FILE, or set a vendor’s key.'),
    ];
  }
  const findings: Finding[] = [];
  for (const { id, name, base_url, usable, unusable_reason } of enabled) {
    const check = `connector ${name}`;
    if (!usable) {
      findings.push(
        fail(
          check,
          unusable_reason ?? 'it can not be used',
          'Give it its credential anew, or bring back what it refers to: WEIGHBRIDGE_PREVIOUS_KEY_ENCRYPTION_KEYS where its key was replaced, the variable or the file that it names.',
        ),
      );
    } else if (live) {
      const params = { path: { connector_id: id } };
      const { ok: taken, message } = await bodyOf(
        client.POST('/api/v1/connectors/{connector_id}/test', { params }),
      );
      findings.push(
        taken
          ? ok(check, `${base_url}: ${message}`)
          : fail(
              check,
              `${base_url}: ${message}`,
              'Correct its base_url or its credential, or open the way there.',
            ),
      );
    } else findings.push(ok(check, `${base_url}, not tried: --live asks its vendor`));
  }
  return findings;
}

function proxyFindings(proxies: readonly Proxy[], now: Date, version: string): Finding[] {
  if (proxies.length === 0) {
    return [
      fail('proxies', 'none is known', 'Start a data plane; it needs CONTROL_PLANE_ADDRESS and the token.'),
    ];
  }
  return proxies.flatMap((proxy) => [stateOf(proxy, now, version), ...gapsOf(proxy, now)]);
}

function stateOf(proxy: Proxy, now: Date, version: string): Finding {
  const { id, name, usage, lag } = proxy;
  const check = `proxy ${name || id}`;
  const advice = usage?.advice ?? 'Look at its log.';
  const silentMs = now.getTime() - new Date(proxy.last_seen_at).getTime();
  if (usage?.state === 'lost')
    return fail(check, `lost with its spool ${proxy.producer_id ?? ''}`.trim(), advice);
  if (usage?.superseded_by) return ok(check, `gone; ${usage.superseded_by} took its spool over`);
  if (silentMs > SILENT_MS) {
    const serves =
      new Date(proxy.may_serve_until) > now
        ? `; it may serve what it knows until ${proxy.may_serve_until}`
        : '';
    return warn(check, `not heard of since ${proxy.last_seen_at}${serves}`, advice);
  }
  if (lag > 0) {
    return warn(
      check,
      `${lag} ${lag === 1 ? 'revision' : 'revisions'} behind`,
      'It catches up within a second. If it does not: restart it, so that it starts with a snapshot.',
    );
  }
  if (proxy.version !== '' && proxy.version !== version) {
    return warn(
      check,
      `of the release ${proxy.version}; this command is of ${version}`,
      'Finish the upgrade.',
    );
  }
  return ok(check, 'live, and has all that was changed');
}

function gapsOf({ id, name, usage }: Proxy, now: Date): Finding[] {
  const gaps = (usage?.shards ?? []).filter(
    ({ gap_since, missing }) =>
      missing > 0 && gap_since !== null && now.getTime() - new Date(gap_since).getTime() > GAP_MS,
  );
  if (gaps.length === 0 || usage?.state === 'retired') return [];
  const missing = gaps.reduce((sum, shard) => sum + shard.missing, 0);
  const where = gaps.map(
    ({ shard, missing_ranges }) => `shard ${shard}: ${missing_ranges.slice(0, 3).join(', ')}`,
  );
  return [
    fail(
      `usage of ${name || id}`,
      `${missing} ${missing === 1 ? 'event is' : 'events are'} missing (${where.join('; ')})`,
      usage?.advice ??
        'It sends them again by itself while it runs; if they do not come, look at its log for what NATS refuses.',
    ),
  ];
}

function quarantineFinding(isHeld: boolean): Finding {
  if (!isHeld) return ok('quarantine', 'empty');
  return warn(
    'quarantine',
    'usage is held that the ledger could not take; spend counts as incomplete',
    'Look at it: weighbridge quarantine list. Release it after an update, or discard what is no spend.',
  );
}
