import { expect, it } from 'vitest';
import { createLogger } from './logger.ts';

it('shows the stack of an error, or in one line its message and causes, without secrets', () => {
  const lines: string[] = [];
  const logger = createLogger('test', { write: (line) => void lines.push(line) });
  const error = new Error('no connection', { cause: new Error('postgresql://ada:hunter2@db is away') });
  logger.warn({ err: error }, 'failed');
  logger.warn({ why: error }, 'failed; trying again');
  logger.warn({ why: 'it is full' }, 'failed');
  const [whole, short, text] = lines.map((line) => JSON.parse(line));
  expect(whole.err.stack).toContain('logger.test.ts');
  expect(short).toEqual({
    ...whole,
    time: short.time,
    msg: 'failed; trying again',
    err: undefined,
    why: 'no connection: postgresql://ada:[redacted]@db is away',
  });
  expect(text.why).toBe('it is full');
});
