import { status as GrpcStatus } from '@grpc/grpc-js';
import type { ResolveResponse } from '@weighbridge/contracts';
import { MAX_KEYS_PER_CALL } from '@weighbridge/state';

export interface LookUpBatchesDeps {
  /** Looks up the first of these tokens, and at least one, in their order. */
  readonly resolveKeys: (tokenSha256s: readonly Uint8Array[]) => Promise<readonly ResolveResponse[]>;
  readonly resolve: (tokenSha256: Uint8Array) => Promise<ResolveResponse>;
  /** The number of the control stream: with another one, another control plane may answer. */
  readonly stream: () => number;
}

interface WaitingLookUp {
  readonly tokenSha256: Uint8Array;
  readonly respond: (response: ResolveResponse) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Calls at a time. So all look-ups that a key cache lets run are under way at once, and a call that hangs holds up the others no
 * longer than its time-out.
 */
const MAX_CALLS = 4;

/** Looks keys up together: those of one turn of the event loop, and those that came while all calls were busy. */
export class LookUpBatches {
  readonly #deps: LookUpBatchesDeps;
  #waiting: WaitingLookUp[] = [];
  #calls = 0;
  #isScheduled = false;
  /** During this stream the control plane has no `ResolveKeys`. */
  #streamOfOld: number | undefined;

  constructor(deps: LookUpBatchesDeps) {
    this.#deps = deps;
  }

  resolve(tokenSha256: Uint8Array): Promise<ResolveResponse> {
    return new Promise((respond, fail) => {
      this.#waiting.push({ tokenSha256, respond, fail });
      if (this.#isScheduled) return;
      this.#isScheduled = true;
      setImmediate(() => {
        this.#isScheduled = false;
        this.#start();
      });
    });
  }

  #start(): void {
    while (this.#calls < MAX_CALLS && this.#waiting.length > 0) {
      this.#calls++;
      void this.#run(this.#waiting.splice(0, MAX_KEYS_PER_CALL)).finally(() => {
        this.#calls--;
        this.#start();
      });
    }
  }

  async #run(batch: readonly WaitingLookUp[]): Promise<void> {
    if (this.#streamOfOld === this.#deps.stream()) return await this.#runEach(batch);
    const stream = this.#deps.stream();
    try {
      const responses = await this.#deps.resolveKeys(batch.map(({ tokenSha256 }) => tokenSha256));
      if (responses.length === 0) throw new Error('the control plane answered for no key');
      for (const [at, { respond }] of batch.entries()) {
        const response = responses[at];
        if (response) respond(response);
      }
      this.#waiting.unshift(...batch.slice(responses.length));
    } catch (error) {
      if (codeOf(error) === GrpcStatus.UNIMPLEMENTED) this.#streamOfOld = stream;
      else if (batch.length === 1 || isAway(error)) {
        for (const { fail } of batch) fail(error);
        return;
      }
      // One key that can't be read must not keep the others from being used.
      await this.#runEach(batch);
    }
  }

  async #runEach(batch: readonly WaitingLookUp[]): Promise<void> {
    await Promise.all(
      batch.map(({ tokenSha256, respond, fail }) => this.#deps.resolve(tokenSha256).then(respond, fail)),
    );
  }
}

/** No one answered, or the database is away: each look-up of the batch would end the same way. */
function isAway(error: unknown): boolean {
  const code = codeOf(error);
  return (
    code === GrpcStatus.UNAVAILABLE || code === GrpcStatus.DEADLINE_EXCEEDED || code === GrpcStatus.CANCELLED
  );
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
