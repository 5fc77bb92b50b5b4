import { readFileSync } from 'node:fs';
import { eventually, requireLinux, startProcess, testRun } from '@weighbridge/testing';
import { beforeAll, expect, it } from 'vitest';
import { processTree } from '../shared/cpu.ts';
import { type Contender, DIRECT, plainContender } from './contender.ts';
import { Turns, whileOneRuns } from './turns.ts';

beforeAll(() => requireLinux('only Linux shows the processes below another'));

/** Its parent waits; the child is busy. */
const BUSY = ['-c', 'sh -c "while :; do :; done" & wait'];

async function busy(name: string): Promise<{ contender: Contender; stop: () => Promise<unknown> }> {
  const process = await startProcess({ command: 'sh', args: BUSY }, testRun());
  // A child that starts while its parent is being stopped would run on.
  await eventually(async () => expect(processTree(process.pid ?? 0)).toHaveLength(2));
  const contender = plainContender(name, 'http://127.0.0.1:1', { pid: process.pid, runsOn: undefined });
  return { contender: { ...contender, mayBeStopped: true }, stop: () => process.stop('SIGKILL') };
}

const isStopped = (pid: number) =>
  / ([A-Z]) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\)/, ' '))?.[1] === 'T';

it('lets one of several processes run at a time, and all in the end', async () => {
  const [one, other] = [await busy('one'), await busy('other')];
  const direct = plainContender(DIRECT, 'http://127.0.0.1:1', { pid: process.pid, runsOn: undefined });
  const turns = new Turns([one.contender, other.contender, direct]);
  // Stopped are parent and child, and a signal reaches one after the other.
  const states = () =>
    [one, other].map(({ contender }) => {
      const stopped = processTree(contender.pid ?? 0).map(isStopped);
      return stopped.every(Boolean) ? 'stopped' : stopped.some(Boolean) ? 'partly' : 'runs';
    });
  await eventually(async () => expect(states()).toEqual(['stopped', 'stopped']));
  const before = turns.cpuOfOthers(one.contender);
  const result = await turns.of(one.contender, async () => {
    await eventually(async () => expect(states()).toEqual(['runs', 'stopped']));
    return 7;
  });
  expect(result).toBe(7);
  expect(turns.cpuOfOthers(one.contender)).toBe(before);
  await expect(turns.of(other.contender, () => Promise.reject(new Error('wrong')))).rejects.toThrow('wrong');
  await eventually(async () => expect(states()).toEqual(['stopped', 'stopped']));
  turns.end();
  await eventually(async () => expect(states()).toEqual(['runs', 'runs']));
  for (const { contender } of [one, other]) {
    for (const pid of processTree(contender.pid ?? 0).slice(1)) process.kill(pid, 'SIGKILL');
  }
  await Promise.all([one.stop(), other.stop()]);
});

it('lets one process of a contender run, and the others again although the work failed', async () => {
  const [one, other] = [await busy('one'), await busy('other')];
  const pids = [one, other].map(({ contender }) => processTree(contender.pid ?? 0)[1] ?? 0);
  const working = whileOneRuns(pids, pids[1] ?? 0, async () => {
    await eventually(async () => expect(pids.map(isStopped)).toEqual([true, false]));
    throw new Error('wrong');
  });
  await expect(working).rejects.toThrow('wrong');
  await eventually(async () => expect(pids.map(isStopped)).toEqual([false, false]));
  for (const pid of pids) process.kill(pid, 'SIGKILL');
  await Promise.all([one.stop(), other.stop()]);
});
