import type { TestProject } from 'vitest/node';
import { type OpenTestRun, openTestRun } from './openTestRun.ts';
import './testRun.ts';

/** Test data need not survive a crash, and without waiting for disks the tests are much faster. */
const POSTGRES_SETTINGS = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  max_connections: '200',
};

/** Of this process: each project loads this module anew, and all share the servers. */
const SHARED = Symbol.for('weighbridge.testRun');
interface Shared {
  opening: Promise<OpenTestRun>;
  users: number;
}
const holder = globalThis as typeof globalThis & { [SHARED]?: Shared };

/** Starts the servers of a test run, if no other project did. Returns a function that stops them, once no project needs them. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  holder[SHARED] ??= { opening: openTestRun(POSTGRES_SETTINGS), users: 0 };
  const shared = holder[SHARED];
  shared.users++;
  const { run, close } = await shared.opening;
  project.provide('weighbridge', run);
  return async () => {
    shared.users--;
    if (shared.users > 0) return;
    delete holder[SHARED];
    await close();
  };
}
