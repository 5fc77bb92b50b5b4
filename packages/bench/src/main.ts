import { resolve } from 'node:path';
import { openTestRun, startNats, type TestRun } from '@weighbridge/testing';
import { Command, InvalidArgumentError } from 'commander';
import { describeAll, measureAll } from './allScenarios.ts';
import { describeConsole, measureConsole } from './console/console.ts';
import { describeControl, measureControl } from './control/control.ts';
import { describeMemory, measureMemory } from './memory/memory.ts';
import { measureMetering } from './metering/metering.ts';
import { describeMetering } from './metering/meteringReport.ts';
import { runOnLoopback, shouldHideInterfaces } from './peers/loopback.ts';
import { measurePeers, peerBars, preparePeers } from './peers/peers.ts';
import { type Bar, proxyBars, shownBars } from './proxy/bars.ts';
import { assignCores, availableCores, type Cores, pinSelf } from './proxy/cores.ts';
import { LANES } from './proxy/plan.ts';
import { describeProfiles, profileProxy } from './proxy/profile.ts';
import { measureProxy, type ProxyFigures, type ProxyOptions } from './proxy/proxy.ts';
import { CACHE_FOLDER, type ProxyFlags, proxyOptions } from './proxy/proxyOptions.ts';
import { describeProxy } from './proxy/report.ts';
import { writeDocs, writePeersDocs } from './proxy/writeDocs.ts';
import { describeRebuild, measureRebuild } from './rebuild/rebuild.ts';
import { describeScale, FACTORS, measureScale, SCALE_LANES } from './scale/scale.ts';
import { loadLine, machineLine } from './shared/machine.ts';
import { describeTranslation, measureTranslation } from './translation/translation.ts';
import { describeVisible, measureVisible } from './visible/visible.ts';

/** Otherwise Postgres's defaults, as in production: a commit is on disk before it returns. */
const POSTGRES_SETTINGS = { max_connections: '100' };

const count = (max: number) => (text: string) => {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number > max) {
    throw new InvalidArgumentError(`a whole number from 1 to ${max}`);
  }
  return number;
};

/** Read before any process is pinned: afterwards a process sees only its own cores. */
const MACHINE = machineLine();

const onProgress = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

const program = new Command('bench')
  .description(
    'Measures Weighbridge relative to the best this machine can do. Without a scenario: every figure with a target.',
  )
  .enablePositionalOptions();

/** Measures a scenario and prints its figures as text or JSON, with the machine and its load. */
async function report<T extends object>(
  json: true | undefined,
  measure: () => Promise<T>,
  describe: (figures: T) => string,
): Promise<void> {
  const before = loadLine();
  const figures = await measure();
  const machine = { machine: MACHINE, before, after: loadLine() };
  const text = json
    ? JSON.stringify({ ...machine, ...figures }, undefined, 2)
    : `${machine.machine}; before: ${machine.before}; after: ${machine.after}\n${describe(figures)}`;
  process.stdout.write(`${text}\n`);
}

async function withRun<T>(use: (run: TestRun) => Promise<T>): Promise<T> {
  const { run, close } = await openTestRun(POSTGRES_SETTINGS);
  try {
    return await use(run);
  } finally {
    await close();
  }
}

/** Called before any process is started, so that all of them stay off the proxy's core. */
function reserveCores(): Cores {
  const cores = assignCores(availableCores());
  pinSelf(cores);
  return cores;
}

type Writer = typeof writeDocs;

async function writeIfAsked(
  flags: WriteFlags,
  write: Writer,
  figures: ProxyFigures,
  bars: readonly Bar[],
): Promise<void> {
  if (flags.write) await write(figures, { machine: MACHINE, bars });
}

type Choice = Pick<ProxyFlags, 'lane' | 'contender'>;

const isPart = ({ lane, contender }: Choice): boolean => (lane ?? contender) !== undefined;

/** Pages have all figures of a run or none. */
function refusePartialPages(flags: WriteFlags & Choice): void {
  if (!flags.write || !isPart(flags)) return;
  throw new InvalidArgumentError('--write needs every lane and contender: leave out --lane and --contender');
}

interface WriteFlags {
  readonly write?: true;
  readonly json?: true;
}

interface ConsoleFlags {
  readonly events: number;
  readonly repeats: number;
  readonly page?: readonly string[];
  readonly quick?: true;
  readonly json?: true;
}

const collect = (text: string, before: readonly string[] = []) => [...before, text];

const collectFactor = (text: string, before: readonly number[] = []) => [...before, count(100)(text)];

const collectPid = (text: string, before: readonly number[] = []) => [...before, count(2 ** 22)(text)];

function withRoundOptions(command: Command): Command {
  return command
    .option('--quick', 'short run that checks that the benchmark works')
    .option('--repeats <count>', 'rounds per workload and contender', count(100))
    .option('--round-ms <count>', 'length of a round in milliseconds', count(60_000))
    .option('--url <url>', 'another contender that is already running; repeatable', collect)
    .option('--header <header>', 'header for these contenders, "name: value"; repeatable', collect)
    .option(
      '--pid <pid>',
      'process of such a contender, in the same order, for its CPU; repeatable',
      collectPid,
    )
    .option('--lane <name>', `only this lane; repeatable: ${LANES.join(', ')}`, collect)
    .option(
      '--contender <name>',
      'only this contender, such as direct, bare or weighbridge; repeatable',
      collect,
    )
    .option('--write', 'write the figures to docs/benchmarks.md')
    .option('--json', 'print JSON');
}

function withProxyOptions(command: Command): Command {
  return withRoundOptions(command)
    .option('--keys <count>', 'keys that requests to Weighbridge take in turns', count(1_000))
    .option('--no-others', 'without nginx and Portkey')
    .option(
      '--no-parts',
      'without Weighbridge with parts off, in two processes and with more keys; so is a choice of lanes or contenders',
    )
    .option(
      '--profile <folder>',
      'write and summarise CPU profiles of Weighbridge to this folder, instead of measuring',
    );
}

type AllFlags = ProxyFlags & WriteFlags & { readonly profile?: string };

async function reportProfiles(folder: string, { json }: WriteFlags, options: ProxyOptions): Promise<void> {
  const { cores, roundMs } = options;
  const wanted = { folder: resolve(folder), cores, ms: roundMs * 10, onProgress };
  const measure = () => withRun(async (run) => ({ profiles: await profileProxy(run, wanted) }));
  await report(json, measure, ({ profiles }) => describeProfiles(profiles));
}

withProxyOptions(program).action(async (flags: AllFlags) => {
  refusePartialPages(flags);
  if (flags.profile !== undefined) {
    const options = proxyOptions(flags, { cores: reserveCores(), onProgress });
    return await reportProfiles(flags.profile, flags, options);
  }
  const options = proxyOptions(flags, { cores: assignCores(availableCores()), onProgress });
  const measure = async () => {
    const figures = await measureAll(withRun, { ...options, isQuick: flags.quick === true });
    await writeIfAsked(flags, writeDocs, figures.proxy, figures.bars);
    return figures;
  };
  await report(flags.json, measure, describeAll);
});
withProxyOptions(program.command('proxy'))
  .description('cost of a request through a proxy: Weighbridge, bare Node, others')
  .action(async (flags: AllFlags) => {
    refusePartialPages(flags);
    const options = proxyOptions(flags, { cores: reserveCores(), onProgress });
    if (flags.profile !== undefined) return await reportProfiles(flags.profile, flags, options);
    const measure = () =>
      withRun(async (run) => {
        const figures = await measureProxy(run, options);
        const bars = proxyBars(figures);
        await writeIfAsked(flags, writeDocs, figures, bars);
        return { ...figures, bars };
      });
    await report(flags.json, measure, ({ bars, ...figures }) =>
      describeProxy(figures, shownBars(bars, { isPart: isPart(flags) })),
    );
  });
withRoundOptions(program.command('peers'))
  .description('other gateways that this machine can have, beside Weighbridge')
  .action(async (flags: Omit<AllFlags, 'others' | 'parts'>) => {
    refusePartialPages(flags);
    if (flags.url === undefined && shouldHideInterfaces()) {
      await preparePeers(CACHE_FOLDER, onProgress);
      // Installs what the service needs, too.
      await withRun(async (run) => (await startNats({}, run)).stop());
      process.exitCode = await runOnLoopback();
      return;
    }
    const given = proxyOptions(
      { ...flags, others: false, parts: false },
      { cores: reserveCores(), onProgress },
    );
    const measure = () =>
      withRun(async (run) => {
        const figures = await measurePeers(run, { ...given, cacheFolder: CACHE_FOLDER });
        const bars = peerBars(figures);
        await writeIfAsked(flags, writePeersDocs, figures, bars);
        return { ...figures, bars };
      });
    await report(flags.json, measure, ({ bars, ...figures }) =>
      describeProxy(figures, shownBars(bars, { isPart: isPart(flags) })),
    );
  });
program
  .command('memory')
  .description('memory of a proxy that knows many keys and serves many requests')
  .option('--requests <count>', 'requests that it serves', count(100_000_000), 1_000_000)
  .option('--keys <count>', 'keys that it knows', count(1_000_000), 100_000)
  .option('--json', 'print JSON')
  .action(async (options: { requests: number; keys: number; json?: true }) => {
    const wanted = { ...options, cores: reserveCores(), onProgress };
    await report(options.json, () => withRun((run) => measureMemory(run, wanted)), describeMemory);
  });
program
  .command('control')
  .description('time until proxies refuse a revoked key, and their calls to the control plane')
  .option('--proxies <count>', 'number of proxies', count(100), 8)
  .option('--keys <count>', 'keys to revoke', count(10_000), 100)
  .option('--json', 'print JSON')
  .action(async (options: { proxies: number; keys: number; json?: true }) => {
    const measure = () => withRun((run) => measureControl(run, { ...options, onProgress }));
    await report(options.json, measure, describeControl);
  });
program
  .command('translation')
  .description(
    'what translation adds to the first token of a stream and to a request of 89 KB, beside bytes that pass',
  )
  .option('--requests <count>', 'requests of each way', count(100_000), 1_000)
  .option('--json', 'print JSON')
  .action(async (options: { requests: number; json?: true }) => {
    const measure = () => withRun((run) => measureTranslation(run, { ...options, onProgress }));
    await report(options.json, measure, describeTranslation);
  });
program
  .command('metering')
  .description('events/s through NATS and metering into Postgres, relative to raw SQL')
  .option('--events <count>', 'events per measurement', count(5_000_000), 60_000)
  .option('--producers <count>', 'producers that send small batches', count(10_000), 1_000)
  .option('--repeats <count>', 'rounds', count(100), 3)
  .option('--cpu-prof <folder>', 'folder for CPU profiles of the workers')
  .option('--json', 'print JSON')
  .action(
    async (options: {
      events: number;
      producers: number;
      repeats: number;
      cpuProf?: string;
      json?: true;
    }) => {
      const measure = () => withRun((run) => measureMetering(run, { ...options, onProgress }));
      await report(options.json, measure, describeMetering);
    },
  );
program
  .command('rebuild')
  .description('rebuilding the counters of a large ledger while usage is recorded')
  .option('--events <count>', 'events in the ledger', count(50_000_000), 10_000_000)
  .option('--rate <count>', 'events/s recorded meanwhile', count(10_000), 1_000)
  .option('--json', 'print JSON')
  .action(async (options: { events: number; rate: number; json?: true }) => {
    const measure = () => withRun((run) => measureRebuild(run, { ...options, onProgress }));
    await report(options.json, measure, describeRebuild);
  });
program
  .command('console')
  .description('every request of every page of the console, on a large ledger')
  .option('--events <count>', 'events in the ledger', count(50_000_000), 10_000_000)
  .option('--repeats <count>', 'how often each is asked with a warm cache', count(1_000), 10)
  .option('--page <name>', 'only this page, such as usage; repeatable', collect)
  .option('--quick', 'a small ledger, to check that the benchmark works')
  .option('--json', 'print JSON')
  .action(async ({ quick, json, page, ...given }: ConsoleFlags) => {
    const size = quick ? { events: 2_000, repeats: 1, isQuick: true } : given;
    const measure = () => withRun((run) => measureConsole(run, { ...size, pages: page, onProgress }));
    await report(json, measure, describeConsole);
  });
program
  .command('visible')
  .description('time until the usage report has the cost of a response, under load')
  .option('--rate <count>', 'requests/s', count(100_000), 1_000)
  .option('--seconds <count>', 'length of the measurement', count(3_600), 20)
  .option('--busy-disk', 'while another process syncs the disk')
  .option('--json', 'print JSON')
  .action(async (options: { rate: number; seconds: number; busyDisk?: true; json?: true }) => {
    const { busyDisk: isDiskBusy = false, ...more } = options;
    const measure = () => withRun((run) => measureVisible(run, { ...more, isDiskBusy, onProgress }));
    await report(options.json, measure, describeVisible);
  });
program
  .command('scale')
  .description('what grows with keys, policies, budgets and callers, at several sizes')
  .option('--lane <name>', `only this lane; repeatable: ${SCALE_LANES.join(', ')}`, collect)
  .option('--factor <count>', 'only this size; repeatable (default: 1, 3, 10)', collectFactor)
  .option('--json', 'print JSON')
  .action(async (options: { lane?: readonly string[]; factor?: readonly number[]; json?: true }) => {
    const wanted = { lanes: options.lane, factors: options.factor ?? FACTORS, onProgress };
    await report(options.json, () => withRun((run) => measureScale(run, wanted)), describeScale);
  });
await program.parseAsync();
