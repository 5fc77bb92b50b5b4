import type { TestRun } from '@weighbridge/testing';

/** What is measured at several sizes, to see how it grows. */
export interface Lane {
  readonly name: string;
  /** What a factor of 1 stands for. */
  readonly size: string;
  /** The figures of one size, by what they say. Each is a count, a size, or a ratio within the run; a time only where no other is beside it. */
  measure(
    run: TestRun,
    factor: number,
    onProgress: (text: string) => void,
  ): Promise<Readonly<Record<string, number>>>;
}
