import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files of these kinds take longest: real processes that are killed, then other processes, then servers. */
const KINDS = [/\/faults\/[^/]+\.e2e\.test\.ts$/, /\.e2e\.test\.ts$/, /\.integration\.test\.ts$/];

/**
 * Starts the longest files first, so that none of them runs alone at the end. Durations of an earlier run decide; a fresh
 * clone has none, and goes by the kind of file.
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
