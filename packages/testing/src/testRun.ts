import { inject } from 'vitest';
import type { NatsSource } from './natsSource.ts';

/** The servers and folder of a test run, which globalSetup provides to every test file. */
export interface TestRun {
  /** A folder for this run's data, removed at its end. */
  readonly folder: string;
  /** Part of the name of everything that this run creates on a shared server. */
  readonly id: string;
  readonly postgres: {
    /** A database whose user may create others. */
    readonly adminUrl: string;
    /** A migrated database to clone. */
    readonly template: string;
  };
  readonly nats: NatsSource;
}

declare module 'vitest' {
  export interface ProvidedContext {
    weighbridge: TestRun;
  }
}

/** The run of this test file. Throws outside of a run. */
export function testRun(): TestRun {
  const run: TestRun | undefined = inject('weighbridge');
  if (!run) {
    throw new Error(
      'No test servers. Name the file *.integration.test.ts, and run vitest with --config packages/testing/vitest.config.ts',
    );
  }
  return run;
}
