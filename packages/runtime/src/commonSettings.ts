import Type from 'typebox';
import { LOG_LEVELS } from './logger.ts';

/** The settings that several apps share, so that each means the same everywhere. */

export const DatabaseUrl = Type.String({
  pattern: '^postgres(ql)?://',
  description: 'the address of Postgres, such as postgresql://user:password@host:5432/weighbridge',
});

export const NatsUrl = Type.String({
  pattern: '^(nats|tls)://',
  description: 'the address of NATS with JetStream, such as nats://host:4222, several with commas',
});

export const Host = Type.String({ default: '127.0.0.1', description: 'the address to listen on' });

export function Port(fallback: number, use: string) {
  return Type.Integer({
    minimum: 0,
    maximum: 65_535,
    default: fallback,
    description: `the port for ${use}, a number from 0 to 65535`,
  });
}

export function LogLevel(fallback: (typeof LOG_LEVELS)[number]) {
  return Type.Union(
    LOG_LEVELS.map((level) => Type.Literal(level)),
    { default: fallback, description: `one of ${LOG_LEVELS.join(', ')}` },
  );
}

export const ShutdownGraceMs = (fallback: number) =>
  Type.Integer({
    minimum: 0,
    maximum: 3_600_000,
    default: fallback,
    description:
      'how long requests may go on when the service is told to stop, in milliseconds, at most an hour',
  });
