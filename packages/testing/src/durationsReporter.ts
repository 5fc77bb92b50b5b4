import { relative } from 'node:path';
import type { Reporter, TestModule, Vitest } from 'vitest/node';
import { type Durations, keepDurations, slowestLines } from './durations.ts';

const SHOWN = 25;

/** Prints the slowest files of a run, and keeps all durations for the order of the next. */
export class DurationsReporter implements Reporter {
  #root = '';
  #isPartial = false;

  onInit({ config }: Vitest): void {
    this.#root = config.root;
    this.#isPartial = config.testNamePattern !== undefined;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const ran = durationsOf(modules, this.#root);
    const lines = slowestLines(ran, SHOWN);
    process.stdout.write(
      `\nThe ${lines.length} slowest files:\n${lines.map((line) => `${line}\n`).join('')}`,
    );
    // One test of a file says nothing about the whole file.
    if (!this.#isPartial) keepDurations(ran);
  }
}

/** Seconds of each file: its imports, hooks and tests. */
function durationsOf(modules: readonly TestModule[], root: string): Durations {
  const seconds = modules.map((module) => {
    const { collectDuration, setupDuration, duration } = module.diagnostic();
    const total = Math.round((collectDuration + setupDuration + duration) / 10) / 100;
    return [relative(root, module.moduleId), total] as const;
  });
  return Object.fromEntries(seconds.filter(([, total]) => total > 0));
}
