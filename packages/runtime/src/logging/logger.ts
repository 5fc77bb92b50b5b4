import { type DestinationStream, type Logger, pino } from 'pino';
import { redactSecrets } from './redact.ts';

export type { Logger };

export type LogLevelName = (typeof LOG_LEVELS)[number];

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'silent'] as const;

/**
 * JSON lines on standard error, from level `info`. Standard output is left to the program's results. Of an error, `err` shows
 * the stack, `why` only the message: for what is tried again.
 */
export function createLogger(
  service: string,
  destination: DestinationStream = pino.destination({ dest: 2, sync: true }),
): Logger {
  return pino(
    {
      base: { service },
      // A second line of defence: our own code does not log headers.
      redact: ['req.headers', 'headers.authorization', '*.authorization'],
      serializers: { err: redactedError, why: messageOf },
    },
    destination,
  );
}

function messageOf(error: unknown): unknown {
  return error instanceof Error ? redactSecrets(pino.stdSerializers.err(error).message) : error;
}

/** An error's message may quote what a client sent. */
function redactedError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { type, message, stack, ...more } = pino.stdSerializers.err(error);
  return { type, message: redactSecrets(message), stack: redactSecrets(stack), ...more };
}
