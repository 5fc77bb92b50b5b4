import type { TestProject } from 'vitest/node';
import { openTestRun } from './openTestRun.ts';
import './testRun.ts';

/** Test data need not survive a crash, and without waiting for disks the tests are much faster. */
const POSTGRES_SETTINGS = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  max_connections: '200',
};

/** Starts the servers of a test run. Returns a function that stops them. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { run, close } = await openTestRun(POSTGRES_SETTINGS);
  project.provide('weighbridge', run);
  return close;
}
