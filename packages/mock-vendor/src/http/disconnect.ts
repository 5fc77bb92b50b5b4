import type { ServerResponse } from 'node:http';

/** The client disconnected, or the reply was interrupted on purpose. Not a failure. */
export class ReplyAborted extends Error {}

/** Aborts with `ReplyAborted` when the response's socket closes. */
export function disconnectSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  // Without a listener, the error would end the process.
  response.on('error', () => response.destroy());
  response.once('close', () => controller.abort(new ReplyAborted()));
  return controller.signal;
}

/**
 * Resolves when `done` is called. If the client disconnects before, it calls the function that `start` returned, and rejects
 * with `ReplyAborted`.
 */
export function waitWhileConnected(
  disconnected: AbortSignal,
  start: (done: () => void) => undefined | (() => void),
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (disconnected.aborted) {
      reject(disconnected.reason);
      return;
    }
    let stop: undefined | (() => void);
    const leave = () => {
      stop?.();
      reject(disconnected.reason);
    };
    disconnected.addEventListener('abort', leave, { once: true });
    stop = start(() => {
      disconnected.removeEventListener('abort', leave);
      resolve();
    });
  });
}

/** A delay that ends when the client disconnects. */
export async function pause(milliseconds: number, disconnected: AbortSignal): Promise<void> {
  if (milliseconds === 0) return;
  await waitWhileConnected(disconnected, (done) => {
    const timer = setTimeout(done, milliseconds);
    return () => clearTimeout(timer);
  });
}

/** Waits until the client disconnects. */
export function untilDisconnected(disconnected: AbortSignal): Promise<void> {
  return waitWhileConnected(disconnected, () => undefined);
}
