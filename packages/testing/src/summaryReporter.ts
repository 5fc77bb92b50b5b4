import type { Reporter, SerializedError, TestModule, TestSuite } from 'vitest/node';

export interface Counts {
  passed: number;
  failed: number;
}

/** Ends the run's output with one line for machines: `N passed, N failed`. */
export class SummaryReporter implements Reporter {
  #counts: Counts = { passed: 0, failed: 0 };

  onInit(): void {
    // At exit, since other reporters, the tear-down and vitest print after the end of the run.
    process.once('exit', (code) => {
      // A failure outside of tests (set-up, tear-down, an interruption, no test found) counts too.
      const failed = code === 0 ? this.#counts.failed : Math.max(1, this.#counts.failed);
      process.stdout.write(`\n${this.#counts.passed} passed, ${failed} failed\n`);
    });
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    this.#counts = countTests(modules, unhandledErrors);
  }
}

/** Counts tests. A failure without a failed test (of a file, a hook, or an uncaught error) counts as one. */
export function countTests(
  modules: readonly Pick<TestModule, 'children' | 'errors'>[],
  unhandledErrors: readonly unknown[],
): Counts {
  const counts: Counts = { passed: 0, failed: unhandledErrors.length };
  for (const module of modules) {
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      if (state === 'passed') counts.passed += 1;
      // Pending: the run ended before the test did.
      if (state === 'failed' || state === 'pending') counts.failed += 1;
    }
    for (const part of [module, ...module.children.allSuites()] satisfies Pick<TestSuite, 'errors'>[]) {
      if (part.errors().length > 0) counts.failed += 1;
    }
  }
  return counts;
}
