import type { TestProject } from 'vitest/node';
import { openTestRun } from './openTestRun.ts';
import './testRun.ts';

/** Tests lose nothing by a crash, and gain a lot by not waiting for disks. */
const POSTGRES_SETTINGS = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  max_connections: '200',
};

/** Starts the servers of a test run. Returns what takes everything down again. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { run, close } = await openTestRun(POSTGRES_SETTINGS);
  project.provide('weighbridge', run);
  return close;
}
