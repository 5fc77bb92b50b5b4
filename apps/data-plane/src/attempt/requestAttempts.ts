import type { ResolvedKey } from '@weighbridge/state';
import { Attempt, type AttemptContext, type AttemptDeps } from './attempt.ts';
import type { AttemptCounter } from './attemptMoney.ts';
import type { SkippedModel } from './skippedModels.ts';

const NO_MODELS: readonly SkippedModel[] = [];

/** The attempts of one request: one at a time, each started once the one before it has ended. */
export class RequestAttempts implements AttemptCounter {
  readonly #deps: AttemptDeps;
  readonly #context: AttemptContext;
  /** The models of the recorded attempts, in order. */
  readonly #models: string[] = [];
  #latest: Attempt | undefined;
  #skipped: readonly SkippedModel[] = NO_MODELS;
  usedTokens = 0;

  constructor(deps: AttemptDeps, context: AttemptContext) {
    this.#deps = deps;
    this.#context = context;
  }

  /** As it is now: an attempt may have refreshed it. */
  get key(): ResolvedKey {
    return this.#context.key;
  }

  /** The models that were passed over, in order. */
  get skipped(): readonly SkippedModel[] {
    return this.#skipped;
  }

  /** Notes that a further limit had no headroom for a model. */
  skip(model: string, limit: string): void {
    this.#skipped = [...this.#skipped, { model, limit }];
  }

  /** Replaces the key by what the control plane says now; rejects if it may not be used any more. */
  async refreshKey(): Promise<void> {
    await this.#context.refreshKey();
  }

  start(): Attempt {
    this.#latest = new Attempt(this.#deps, this.#context, this);
    return this.#latest;
  }

  /** Settles at its reservation what a fault of this proxy left open. */
  close(): void {
    this.#latest?.abandon();
  }

  next(model: string): { readonly attempt: number; readonly modelAttempt: number } {
    return {
      attempt: this.#models.length + 1,
      modelAttempt: this.#models.filter((id) => id === model).length + 1,
    };
  }

  recorded(model: string): void {
    this.#models.push(model);
  }
}
