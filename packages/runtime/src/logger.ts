import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger };

export type LogLevelName = (typeof LOG_LEVELS)[number];

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'silent'] as const;

/** JSON lines on standard error, from level `info` until it is set otherwise, so that standard output stays with what the program has to say. */
export function createLogger(
  service: string,
  destination: DestinationStream = pino.destination({ dest: 2, sync: true }),
): Logger {
  return pino(
    {
      base: { service },
      // Second line of defence: no code of ours logs headers.
      redact: ['req.headers', 'headers.authorization', '*.authorization'],
    },
    destination,
  );
}
