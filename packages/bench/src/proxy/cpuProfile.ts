/** A profile as V8 writes it (https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile). Times are microseconds. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: CallFrame;
    readonly children?: readonly number[];
  }[];
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
}

/** A function or module, and how long it ran. */
interface SelfTime {
  readonly name: string;
  readonly micros: number;
  /** Share of the busy time. */
  readonly share: number;
}

export interface SelfTimes {
  readonly busyMicros: number;
  readonly functions: readonly SelfTime[];
  readonly modules: readonly SelfTime[];
  /** Functions of Weighbridge, including the functions that they called. */
  readonly ours: readonly SelfTime[];
}

/** If more sampling intervals pass between two samples, another process had the core. */
const MAX_INTERVALS = 4;
/** V8's name for the time in which nothing ran. */
const IDLE = '(idle)';

/** Self time by function and by module, in descending order, without the first `skipMicros` of the profile. */
export function selfTimes(profile: CpuProfile, skipMicros: number): SelfTimes {
  const nodes = new Map(profile.nodes.map((node) => [node.id, node.callFrame]));
  const stacks = ourFunctionsOnStack(profile);
  const byStack = new Map<string, number>();
  const byFunction = new Map<string, number>();
  const byModule = new Map<string, number>();
  let busyMicros = 0;
  let elapsed = 0;
  const maxMicros = MAX_INTERVALS * median(profile.timeDeltas);
  for (const [at, id] of profile.samples.entries()) {
    // A sample represents the time until the next one.
    elapsed += profile.timeDeltas[at] ?? 0;
    const micros = Math.min(profile.timeDeltas[at + 1] ?? 0, maxMicros);
    const frame = nodes.get(id);
    if (!frame || elapsed < skipMicros || frame.functionName === IDLE) continue;
    busyMicros += micros;
    const module = moduleOf(frame.url) || frame.functionName;
    add(byFunction, nameOf(frame), micros);
    for (const name of stacks.get(id) ?? []) add(byStack, name, micros);
    add(byModule, module, micros);
  }
  const sorted = (times: ReadonlyMap<string, number>): SelfTime[] =>
    Array.from(times, ([name, micros]) => ({ name, micros, share: micros / Math.max(1, busyMicros) })).sort(
      (a, b) => b.micros - a.micros,
    );
  return { busyMicros, functions: sorted(byFunction), modules: sorted(byModule), ours: sorted(byStack) };
}

/** For each node, the functions of Weighbridge on its stack, each once. */
function ourFunctionsOnStack(profile: CpuProfile): Map<number, ReadonlySet<string>> {
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const stacks = new Map<number, ReadonlySet<string>>();
  const called = new Set(profile.nodes.flatMap(({ children = [] }) => children));
  const open = profile.nodes
    .filter(({ id }) => !called.has(id))
    .map(({ id }) => ({ id, above: new Set<string>() }));
  for (let next = open.pop(); next; next = open.pop()) {
    const node = nodes.get(next.id);
    if (!node) continue;
    const { callFrame, children = [] } = node;
    const stack = isOurs(callFrame.url) ? new Set([...next.above, nameOf(callFrame)]) : next.above;
    stacks.set(next.id, stack);
    for (const id of children) open.push({ id, above: stack });
  }
  return stacks;
}

const OURS = /\/(?:apps|packages)\/([^/]+)\/(?:dist|src)\/(.*)$/;

function isOurs(url: string): boolean {
  return !url.includes('/node_modules/') && OURS.test(url);
}

function nameOf({ functionName, url, lineNumber }: CallFrame): string {
  const place = url === '' ? '' : ` ${fileOf(url)}:${lineNumber + 1}`;
  return `${functionName || '(anonymous)'}${place}`;
}

function median(values: readonly number[]): number {
  return Float64Array.from(values).sort()[values.length >> 1] ?? 0;
}

function add(times: Map<string, number>, name: string, micros: number): void {
  times.set(name, (times.get(name) ?? 0) + micros);
}

/** A package, or a folder of Weighbridge: `undici`, `data-plane/request`, `node:net`. Empty if the function has no file. */
function moduleOf(url: string): string {
  const inPackage = url.split('/node_modules/').at(-1);
  if (inPackage !== undefined && inPackage !== url) {
    const [first = '', second = ''] = inPackage.split('/');
    return first.startsWith('@') ? `${first}/${second}` : first;
  }
  const ours = OURS.exec(url);
  if (!ours) return url;
  const folders = (ours[2] ?? '').split('/').slice(0, -1);
  return [ours[1], ...folders].join('/');
}

/** The path from the package on. */
function fileOf(url: string): string {
  const inPackage = url.split('/node_modules/').at(-1);
  if (inPackage !== undefined && inPackage !== url) return inPackage;
  return /\/(?:apps|packages)\/(.*)$/.exec(url)?.[1] ?? url;
}
