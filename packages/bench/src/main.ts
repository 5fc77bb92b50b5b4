import { openTestRun, type TestRun } from '@weighbridge/testing';
import { Command, InvalidArgumentError } from 'commander';
import { describeLeases, measureLeases } from './leases.ts';
import { loadLine, machineLine } from './machine.ts';
import { describeMetering, measureMetering } from './metering.ts';
import { describeRebuild, measureRebuild } from './rebuild.ts';
import { describeSpool, measureSpool } from './spool.ts';
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

const onProgress = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

const program = new Command('bench').description(
  'Measures Weighbridge against the best this machine can do.',
);

/** A scenario is measured, printed for people or machines, and leaves nothing behind. */
async function report<T extends object>(
  json: true | undefined,
  measure: () => Promise<T>,
  describe: (figures: T) => string,
): Promise<void> {
  const before = loadLine();
  const figures = await measure();
  const machine = { machine: machineLine(), before, after: loadLine() };
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
