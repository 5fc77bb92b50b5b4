import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { divide, expectedSeconds, readLastDurations, readSeed } from './durations.ts';

/** Starts the slowest files of a project first, so that none of them runs alone at the end. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const durations = readLastDurations();
    const seconds = (file: TestSpecification) => expectedSeconds(this.#pathOf(file), durations);
    const sorted = await super.sort(files);
    return sorted.sort((one, other) => groupOrder(one) - groupOrder(other) || seconds(other) - seconds(one));
  }

  /** The machines of the shards share no cache, so only committed durations count. */
  override async shard(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { shard } = this.ctx.config;
    if (!shard) return files;
    const mine = divide(
      files.map((file) => this.#pathOf(file)),
      shard.count,
      readSeed(),
    )[shard.index - 1];
    const paths = new Set(mine);
    return files.filter((file) => paths.has(this.#pathOf(file)));
  }

  #pathOf({ moduleId }: TestSpecification): string {
    return relative(this.ctx.config.root, moduleId);
  }
}

const groupOrder = ({ project }: TestSpecification): number => project.config.sequence.groupOrder;
