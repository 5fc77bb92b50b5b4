import { resolve } from 'node:path';
import { openTestRun, type TestRun } from '@weighbridge/testing';
import { Command, InvalidArgumentError } from 'commander';
import { describeControl, measureControl } from './control.ts';
import { describeLeases, measureLeases } from './leases.ts';
import { loadLine, machineLine } from './machine.ts';
import { describeMemory, measureMemory } from './memory.ts';
import { measureMetering } from './metering.ts';
import { describeMetering } from './meteringReport.ts';
import { type Bar, proxyBars } from './proxy/bars.ts';
import { availableCores, type Cores, dealCores, pinSelf } from './proxy/cores.ts';
import { describeProfiles, profileProxy } from './proxy/profile.ts';
import { measureProxy, type ProxyFigures, type ProxyOptions } from './proxy/proxy.ts';
import { type ProxyFlags, proxyOptions } from './proxy/proxyOptions.ts';
import { describeProxy } from './proxy/report.ts';
import { writeDocs } from './proxy/writeDocs.ts';
import { describeRebuild, measureRebuild } from './rebuild.ts';
import { describeSpool, measureSpool } from './spool.ts';
import { describeTable, measureTable } from './table.ts';
import { describeVisible, measureVisible } from './visible.ts';

/** As an operator's Postgres has it: a commit is on disk before it counts. */
const POSTGRES_SETTINGS = { max_connections: '100' };

const count = (most: number) => (text: string) => {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number > most) {
    throw new InvalidArgumentError(`a whole number from 1 to ${most}`);
  }
  return number;
};

/** Before anything is pinned: afterwards a process sees its own cores only. */
const MACHINE = machineLine();

const onProgress = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

const program = new Command('bench')
  .description(
    'Measures Weighbridge against the best this machine can do. Without a scenario: every figure with an aim.',
  )
  .enablePositionalOptions();

/** A scenario is measured, printed for people or machines, and leaves nothing behind. */
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

/** Before anything is started, so that all of it stays off the proxy's core. */
function takeCores(): Cores {
  const cores = dealCores(availableCores());
  pinSelf(cores);
  return cores;
}

async function write(flags: WriteFlags, figures: ProxyFigures, bars: readonly Bar[]): Promise<void> {
  if (flags.write) await writeDocs(figures, { machine: MACHINE, bars });
}

interface WriteFlags {
  readonly write?: true;
  readonly json?: true;
}

const collect = (text: string, before: readonly string[] = []) => [...before, text];

function withProxyOptions(command: Command): Command {
  return command
    .option('--quick', 'a short run, to see that it works')
    .option('--repeats <count>', 'how many rounds of each are measured', count(100))
    .option('--round-ms <count>', 'how long a round is', count(60_000))
    .option('--keys <count>', 'how many keys ours is asked with in turns', count(1_000))
    .option('--url <url>', 'another contender that runs already; may be given again', collect)
    .option('--header <header>', 'for those: "name: value"; may be given again', collect)
    .option('--no-others', 'without nginx and Portkey')
    .option('--no-parts', 'without ours in parts, in two processes and with more keys')
    .option('--profile <folder>', "instead: where to write profiles of our proxy's CPU, and what is in them")
    .option('--write', 'put the figures and their charts into docs/benchmarks.md')
    .option('--json', 'print JSON');
}

type AllFlags = ProxyFlags & WriteFlags & { readonly profile?: string };

async function reportProfiles(folder: string, { json }: WriteFlags, options: ProxyOptions): Promise<void> {
  const { cores, roundMs } = options;
  const wanted = { folder: resolve(folder), cores, ms: roundMs * 10, onProgress };
  const measure = () => withRun(async (run) => ({ profiles: await profileProxy(run, wanted) }));
  await report(json, measure, ({ profiles }) => describeProfiles(profiles));
}

withProxyOptions(program).action(async (flags: AllFlags) => {
  if (flags.profile !== undefined) {
    const options = proxyOptions(flags, { cores: takeCores(), onProgress });
    return await reportProfiles(flags.profile, flags, options);
  }
  const options = proxyOptions(flags, { cores: dealCores(availableCores()), onProgress });
  const measure = async () => {
    const figures = await measureTable(withRun, { ...options, isQuick: flags.quick === true });
    await write(flags, figures.proxy, figures.bars);
    return figures;
  };
  await report(flags.json, measure, describeTable);
});
withProxyOptions(program.command('proxy'))
  .description('what requests cost that go through a proxy: ours, bare Node, others')
  .action(async (flags: AllFlags) => {
    const options = proxyOptions(flags, { cores: takeCores(), onProgress });
    if (flags.profile !== undefined) return await reportProfiles(flags.profile, flags, options);
    const measure = () =>
      withRun(async (run) => {
        const figures = await measureProxy(run, options);
        const bars = proxyBars(figures);
        await write(flags, figures, bars);
        return { ...figures, bars };
      });
    await report(flags.json, measure, describeProxy);
  });
program
  .command('memory')
  .description('what a proxy keeps in memory that knows many keys and serves many requests')
  .option('--requests <count>', 'how many it serves', count(100_000_000), 1_000_000)
  .option('--keys <count>', 'how many keys it knows', count(1_000_000), 100_000)
  .option('--json', 'print JSON')
  .action(async (options: { requests: number; keys: number; json?: true }) => {
    const wanted = { ...options, cores: takeCores(), onProgress };
    await report(options.json, () => withRun((run) => measureMemory(run, wanted)), describeMemory);
  });
program
  .command('control')
  .description('how soon proxies refuse a key that was revoked, and what they ask about keys')
  .option('--proxies <count>', 'how many there are', count(100), 8)
  .option('--keys <count>', 'how many are revoked', count(10_000), 100)
  .option('--json', 'print JSON')
  .action(async (options: { proxies: number; keys: number; json?: true }) => {
    const measure = () => withRun((run) => measureControl(run, { ...options, onProgress }));
    await report(options.json, measure, describeControl);
  });
program
  .command('metering')
  .description('events/s through NATS and metering into Postgres, by what raw SQL reaches')
  .option('--events <count>', 'how many are measured each time', count(5_000_000), 60_000)
  .option('--producers <count>', 'how many send small batches', count(10_000), 1_000)
  .option('--repeats <count>', 'how often everything is measured', count(100), 3)
  .option('--cpu-prof <folder>', "where to write profiles of the workers' CPU")
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
  .description('adding up a large ledger anew while usage is being recorded')
  .option('--events <count>', 'how many the ledger has', count(50_000_000), 10_000_000)
  .option('--rate <count>', 'how many are recorded each second meanwhile', count(10_000), 1_000)
  .option('--json', 'print JSON')
  .action(async (options: { events: number; rate: number; json?: true }) => {
    const measure = () => withRun((run) => measureRebuild(run, { ...options, onProgress }));
    await report(options.json, measure, describeRebuild);
  });
program
  .command('spool')
  .description("a proxy's throughput with its spool on and off")
  .option('--rounds <count>', 'how often each side is measured', count(100), 20)
  .option('--round-ms <count>', 'how long each side is loaded at a time', count(60_000), 1_500)
  .option('--cpu-prof <folder>', "where to write profiles of the proxies' CPU")
  .option('--json', 'print JSON')
  .action(async (options: { rounds: number; roundMs: number; cpuProf?: string; json?: true }) => {
    const measure = () => withRun((run) => measureSpool(run, { ...options, onProgress }));
    await report(options.json, measure, describeSpool);
  });
program
  .command('leases')
  .description('what budgets cost on the way of a request, and how often a proxy asks for leases')
  .option('--rounds <count>', 'how often reserving is measured', count(100), 5)
  .option('--rate <count>', 'requests/s on one key', count(100_000), 10_000)
  .option('--json', 'print JSON')
  .action(async (options: { rounds: number; rate: number; json?: true }) => {
    await report(options.json, () => measureLeases({ ...options, onProgress }), describeLeases);
  });
program
  .command('visible')
  .description('how long until the usage report knows of an answer, under load')
  .option('--rate <count>', 'requests/s', count(100_000), 1_000)
  .option('--seconds <count>', 'for how long', count(3_600), 20)
  .option('--json', 'print JSON')
  .action(async (options: { rate: number; seconds: number; json?: true }) => {
    const measure = () => withRun((run) => measureVisible(run, { ...options, onProgress }));
    await report(options.json, measure, describeVisible);
  });
await program.parseAsync();
