import type { Caller, Cluster } from './cluster.ts';
import type { Held } from './faultyApp.ts';
import { createLoad, type Load, type LoadRequest, ordinary } from './load.ts';
import type { Random } from './random.ts';
import { expectReconciled } from './reconciliation.ts';

/** What the apps retained after a slice, once all is settled and garbage is collected. */
export interface Slice {
  /** Since the start of the soak. */
  readonly requests: number;
  readonly held: ReadonlyMap<string, Held>;
}

export interface SoakOptions {
  readonly cluster: Cluster;
  readonly seed: number;
  readonly atOnce: number;
  /** Whether another slice follows these. */
  readonly hasNext: (slices: readonly Slice[]) => boolean;
  readonly requestsInSlice: number;
  readonly onSlice?: (slice: Slice) => void;
}

/** The warm-up, in slices: caches and pools fill, and code is compiled. */
const WARM_UP = 3;
/** The number of requests after which the bill is reconciled with the ledger. */
const JUDGED_REQUESTS = 50_000;
/**
 * The warm-up of two proxies on a busy day, in requests: what a proxy retains depends on them, and a minute has 300 to 10,000. In
 * thirteen recorded windows, proxies grew by up to 3.2 MB when one minute was left out, and by 1.3 MB at most after these.
 */
const WARM_UP_REQUESTS = 4_000;
/** Connections and timers come and go: only growth of the minimum over the later slices counts. */
const HANDLES_MARGIN = 8;

/** Sends requests of all kinds at the highest rate; measures each app after each slice, and reconciles the ledger. */
export async function soak(options: SoakOptions): Promise<readonly Slice[]> {
  const { cluster, seed, atOnce, requestsInSlice, hasNext, onSlice } = options;
  const slices: Slice[] = [];
  const judgedAfter = Math.ceil(JUDGED_REQUESTS / requestsInSlice);
  let [requests, caller, load] = [0, ...(await begin(0))];
  async function begin(at: number): Promise<[Caller, Load]> {
    const fresh = await cluster.caller(`soak-${at}`);
    const { proxies } = cluster;
    return [
      fresh,
      createLoad({ caller: fresh, seed: seed + at, proxies, nextRequest, atOnce, keepAlive: true }),
    ];
  }
  while (hasNext(slices)) {
    const count = slices.length === 0 ? WARM_UP * requestsInSlice : requestsInSlice;
    await load.send(count);
    await cluster.settled();
    requests += count;
    const slice = { requests, held: await heldBy(cluster) };
    slices.push(slice);
    onSlice?.(slice);
    if (slices.length % judgedAfter !== 0 && hasNext(slices)) continue;
    await expectReconciled(cluster, caller, load.sent, `soak, ${requests} requests`);
    cluster.vendor.clear();
    [caller, load] = await begin(slices.length);
  }
  return slices;
}

/** What each app retains now. */
export async function heldBy({
  controlPlanes,
  workers,
  proxies,
}: Cluster): Promise<ReadonlyMap<string, Held>> {
  const held = new Map<string, Held>();
  for (const app of [...controlPlanes, ...workers, ...proxies]) held.set(app.name, await app.held());
  return held;
}

const SESSIONS = 50;
const WORKLOAD_TYPES = 20;

/** All kinds of requests for which a proxy stores something: sessions, workload types, disconnects and errors. */
function nextRequest(random: Random): LoadRequest {
  const request = ordinary(random);
  const headers = {
    ...request.headers,
    'x-svc-session-id': `session-${random.integer(SESSIONS)}`,
    'x-svc-workload-type': `type-${random.integer(WORKLOAD_TYPES)}`,
    ...(random.chance(0.02) && { 'x-mock-status': '400' }),
  };
  return { ...request, headers, ...(random.chance(0.05) && { disconnectsAfter: random.integer(500) }) };
}

/**
 * Those whose memory can be compared, of minutes that every process survived: not the first, and only once the processes are warm.
 * @param requestsBefore Until the first of the minutes, since the start of the soak.
 */
export function warmSlices(minutes: readonly Slice[], requestsBefore: number): readonly Slice[] {
  return minutes.slice(1).filter(({ requests }) => requests - requestsBefore >= WARM_UP_REQUESTS);
}

/** How an app's memory grew, in bytes for each request: the median of the slopes between any two slices. */
export function growth(slices: readonly Slice[], app: string): number {
  const points = slices.map(({ requests, held }) => ({
    requests,
    bytes: held.get(app)?.heapBytes ?? Number.NaN,
  }));
  const slopes = points.flatMap((one, at) =>
    points.slice(at + 1).map((other) => (other.bytes - one.bytes) / (other.requests - one.requests)),
  );
  slopes.sort((one, other) => one - other);
  return slopes[Math.floor(slopes.length / 2)] ?? Number.NaN;
}

/** Descriptions of leaks; empty if memory is flat and no handle stays open. */
export function leaks(slices: readonly Slice[], mostBytesPerRequest: number): string[] {
  const half = Math.floor(slices.length / 2);
  if (half < 1) throw new Error('too few slices to tell');
  return [...(slices[0]?.held.keys() ?? [])].flatMap((app) => {
    const slope = growth(slices, app);
    const grown = HANDLES.flatMap((what) => {
      const counts = slices.map(({ held }) => countOf(held.get(app)?.[what]));
      const [most, least] = [Math.max(...counts.slice(0, half)), Math.min(...counts.slice(-half))];
      return least > most + HANDLES_MARGIN
        ? [`${app} has ${least} ${what} at least, had ${most} at most`]
        : [];
    });
    const grows = `${app} grows by ${slope.toFixed(0)} bytes a request`;
    return [...(slope <= mostBytesPerRequest ? [] : [grows]), ...grown];
  });
}

const HANDLES = ['files', 'resources', 'listeners'] as const;

function countOf(count: Held[(typeof HANDLES)[number]] | undefined): number {
  if (count === undefined) return Number.NaN;
  return typeof count === 'number' ? count : Object.values(count).reduce((sum, one) => sum + one, 0);
}

/** A line per app with what it retains. */
export function inFigures({ requests, held }: Slice): string {
  const apps = [...held].map(([name, { heapBytes, files, resources }]) => {
    const heap = (heapBytes / 1e6).toFixed(2);
    return `${name} ${heap} MB, ${files} files, ${countOf(resources)} resources`;
  });
  return `${requests} requests: ${apps.join('; ')}`;
}
