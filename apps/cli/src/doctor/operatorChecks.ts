import { bodyOf, type components, pages } from '@weighbridge/client';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import type { Session } from '../session/session.ts';
import { archiveFindings } from './archiveFindings.ts';
import { feedFinding } from './feedFinding.ts';
import { type Finding, fail, ok, warn } from './finding.ts';
import { tryCall } from './serviceChecks.ts';

type Proxy = components['schemas']['Proxy'];
type Connector = components['schemas']['Connector'];

const PAGE_SIZE = 500;
/** Limits how much of a long list is checked. */
const MAX_PAGES = 4;
/** Events that are only out of order arrive within seconds. */
const GAP_MS = 60_000;
/** A proxy sends a heartbeat each second. */
const SILENT_MS = 10_000;

/** Checks that need an operator's key: connectors, proxies, missing usage and quarantine. */
export async function operatorChecks(
  session: Session,
  { live }: { readonly live: boolean },
): Promise<Finding[]> {
  const { client, now, version } = session;
  const proxies = await tryCall('operator', () =>
    all((page_token) =>
      bodyOf(client.GET('/api/v1/proxies', { params: { query: { page_size: PAGE_SIZE, page_token } } })),
    ),
  );
  const connectors = await tryCall('operator', () =>
    all((page_token) =>
      bodyOf(client.GET('/api/v1/connectors', { params: { query: { page_size: PAGE_SIZE, page_token } } })),
    ),
  );
  const held = await tryCall('operator', () =>
    bodyOf(client.GET('/api/v1/quarantine', { params: { query: { state: 'held', page_size: 1 } } })),
  );
  const feed = await tryCall('operator', () => bodyOf(client.GET('/api/v1/catalog/feed')));
  const ledger = await tryCall('operator', () => bodyOf(client.GET('/api/v1/ledger')));
  return [
    ...(connectors.value
      ? await connectorFindings(session, connectors.value, live)
      : [connectors.finding('connectors')]),
    ...(proxies.value ? proxyFindings(proxies.value, now(), version) : [proxies.finding('proxies')]),
    held.value ? quarantineFinding(held.value.data.length > 0) : held.finding('quarantine'),
    feed.value ? feedFinding(feed.value, now()) : feed.finding('prices'),
    ...(ledger.value ? archiveFindings(ledger.value.archive) : []),
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
      fail(
        'connectors',
        'none is enabled',
        "Create one with weighbridge apply -f FILE, or set a vendor's key.",
      ),
    ];
  }
  const findings: Finding[] = [];
  for (const connector of enabled) {
    const { name, base_url, usable, unusable_reason, credential_bound } = connector;
    const check = `connector ${name}`;
    if (!usable) {
      findings.push(
        fail(
          check,
          unusable_reason ?? "it can't be used",
          'Set its credential again, or restore what it refers to: the variable or file it names, or, if the key-encryption key was replaced, WEIGHBRIDGE_PREVIOUS_KEY_ENCRYPTION_KEYS.',
        ),
      );
    } else if (live) findings.push(await testedFinding(client, connector));
    else if (isCalledByPods(connector)) {
      findings.push(ok(check, `${base_url}, by the proxies' own identity; use --live to have them show it`));
    } else findings.push(ok(check, `${base_url}; use --live to check the credential at its vendor`));
    if (credential_bound === false) findings.push(unboundFinding(name, referenceOf(connector)));
  }
  return findings;
}

/** By its proxies, with their identity. */
async function testedFinding(client: Session['client'], { id, name, base_url }: Connector): Promise<Finding> {
  const params = { path: { connector_id: id } };
  const tested = await bodyOf(client.POST('/api/v1/connectors/{connector_id}/test', { params }));
  const { identity, region, proxies } = tested;
  const facts = [
    identity && `identity: ${identity}`,
    region && `region: ${region}`,
    proxies.length > 0 && `tested by ${proxies.map((proxy) => proxy.name || proxy.proxy_id).join(', ')}`,
  ].filter((fact) => typeof fact === 'string');
  const detail = `${base_url}: ${tested.message}${facts.length > 0 ? ` (${facts.join('; ')})` : ''}`;
  if (tested.ok) return ok(`connector ${name}`, detail);
  return fail(
    `connector ${name}`,
    detail,
    'Correct its base_url, its credential or auth, or the identity of the proxies, or allow connections to that address.',
  );
}

/** The connector has no keys: each proxy finds its pod's identity, and only the proxy can tell which. */
function isCalledByPods({ auth }: Connector): boolean {
  if (auth.kind === 'google') return auth.credentials === undefined;
  if (auth.kind === 'azure') return auth.client_secret === undefined;
  return auth.kind === 'aws' && auth.access_key_id === undefined;
}

function referenceOf({ auth, credential_ref }: Connector): string {
  return auth.client_secret ?? auth.secret_access_key ?? auth.credentials ?? credential_ref ?? 'its secret';
}

function unboundFinding(name: string, ref: string): Finding {
  return warn(
    `credential of ${name}`,
    `${ref} may go to any host: an operator can read it by pointing a connector elsewhere`,
    'List it with its hosts in CREDENTIAL_REF_HOSTS of the control plane.',
  );
}

function proxyFindings(proxies: readonly Proxy[], now: Date, version: string): Finding[] {
  if (proxies.length === 0) {
    return [
      fail(
        'proxies',
        'no proxy has connected',
        'Start a data plane, with CONTROL_PLANE_ADDRESS and CONTROL_PLANE_TOKEN.',
      ),
    ];
  }
  return [
    ...proxies.flatMap((proxy) => [stateOf(proxy, now, version), ...gapsOf(proxy, now)]),
    ...moreShards(proxies),
  ];
}

/** An earlier release would send only a part of these spools. */
function moreShards(proxies: readonly Proxy[]): Finding[] {
  const names = proxies
    .filter(
      ({ usage }) => usage?.state !== 'closed' && usage?.shards.some(({ shard }) => shard >= USAGE_SHARDS),
    )
    .map(({ name, id }) => name || id);
  if (names.length === 0) return [];
  const detail = `more than ${USAGE_SHARDS} at ${names.slice(0, 5).join(', ')}${names.length > 5 ? ` and ${names.length - 5} more` : ''}`;
  return [ok('usage shards', `${detail}; before a rollback, unset USAGE_SHARDS and wait until this is gone`)];
}

function stateOf(proxy: Proxy, now: Date, version: string): Finding {
  const { id, name, usage, lag } = proxy;
  const check = `proxy ${name || id}`;
  const advice = usage?.advice ?? 'Check whether it still runs, and what its log says.';
  const silentMs = now.getTime() - new Date(proxy.last_seen_at).getTime();
  if (usage?.state === 'lost')
    return fail(check, `lost with its spool ${proxy.producer_id ?? ''}`.trim(), advice);
  if (usage?.superseded_by) return ok(check, `gone; ${usage.superseded_by} took over its spool`);
  if (silentMs > SILENT_MS) {
    const serves =
      new Date(proxy.may_serve_until) > now
        ? `; it may serve with its last state until ${proxy.may_serve_until}`
        : '';
    return warn(check, `no heartbeat since ${proxy.last_seen_at}${serves}`, advice);
  }
  if (lag > 0) {
    return warn(
      check,
      `${lag} ${lag === 1 ? 'revision' : 'revisions'} behind`,
      'It should catch up within a second. If not, restart it: it then loads a full snapshot.',
    );
  }
  if (proxy.version !== '' && proxy.version !== version) {
    return warn(
      check,
      `runs release ${proxy.version}; this command is from release ${version}`,
      'Finish the upgrade, so that all run the same release.',
    );
  }
  return ok(check, 'live and up to date');
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
        'A running proxy resends them by itself. If they do not arrive, check its log for errors of NATS.',
    ),
  ];
}

function quarantineFinding(isHeld: boolean): Finding {
  if (!isHeld) return ok('quarantine', 'empty');
  return warn(
    'quarantine',
    'some usage could not be recorded, so spend is incomplete',
    'List it with weighbridge quarantine list. Release it after an update, or discard what is not spend.',
  );
}
