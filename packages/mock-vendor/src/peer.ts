import type { ServerResponse } from 'node:http';

/** There is nobody left to answer, or the answer was broken off on purpose. Not a failure. */
export class AnswerOver extends Error {}

/** A signal that aborts, with `AnswerOver`, when the response's socket closes. */
export function departureOf(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  // A socket that fails closes too; unheard, the error would end the process.
  response.on('error', () => response.destroy());
  response.once('close', () => controller.abort(new AnswerOver()));
  return controller.signal;
}

/**
 * Waits until what `start` began calls `done`. When the peer leaves first, calls what `start` returned, to
 * stop it, and throws `AnswerOver`.
 */
export function whilePresent(
  gone: AbortSignal,
  start: (done: () => void) => undefined | (() => void),
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (gone.aborted) {
      reject(gone.reason);
      return;
    }
    let stop: undefined | (() => void);
    const leave = () => {
      stop?.();
      reject(gone.reason);
    };
    gone.addEventListener('abort', leave, { once: true });
    stop = start(() => {
      gone.removeEventListener('abort', leave);
      resolve();
    });
  });
}

/** A delay whose timer ends with the peer. */
export async function pause(milliseconds: number, gone: AbortSignal): Promise<void> {
  if (milliseconds === 0) return;
  await whilePresent(gone, (done) => {
    const timer = setTimeout(done, milliseconds);
    return () => clearTimeout(timer);
  });
}

/** Waits for nothing, until the peer leaves. */
export function untilGone(gone: AbortSignal): Promise<void> {
  return whilePresent(gone, () => undefined);
}
