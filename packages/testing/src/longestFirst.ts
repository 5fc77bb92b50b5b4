import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Slowest first: tests that kill real processes, then other tests with processes, then tests with servers. */
const KINDS = [/\/faults\/[^/]+\.e2e\.test\.ts$/, /\.e2e\.test\.ts$/, /\.integration\.test\.ts$/];

/**
 * Starts the slowest files first, so that none of them runs alone at the end. Sorts by kind of file, and within a kind by
 * the durations of an earlier run, if there are any.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.sort((one, other) => rank(one) - rank(other));
  }
}

function rank({ moduleId, project }: TestSpecification): number {
  const kind = KINDS.findIndex((pattern) => pattern.test(moduleId));
  return project.config.sequence.groupOrder * 10 + (kind === -1 ? KINDS.length : kind);
}
