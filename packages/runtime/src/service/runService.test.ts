import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runService } from './runService.ts';

let told: string[];
beforeEach(() => {
  told = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => told.push(String(text)) > 0);
});
afterEach(() => vi.restoreAllMocks());

describe('runService', () => {
  it('closes what was opened, newest first, on a signal, also if signalled again', async () => {
    const closed: string[] = [];
    const run = runService('test', async ({ logger, onShutdown }) => {
      logger.level = 'silent';
      onShutdown('first', () => closed.push('first'));
      onShutdown('second', async () => {
        process.emit('SIGINT');
        await sleep(5);
        closed.push('second');
      });
    });
    await sleep(5);
    process.emit('SIGTERM');
    expect(await run).toBe(0);
    expect(closed).toEqual(['second', 'first']);
  });

  it('prints why a start failed, with the causes, closes what was open, and exits with 1', async () => {
    let closed = false;
    const code = await runService('test', async ({ logger, onShutdown }) => {
      logger.level = 'silent';
      onShutdown('opened', () => {
        closed = true;
      });
      throw new Error('The database does not answer', { cause: new Error('ECONNREFUSED') });
    });
    expect([code, closed]).toEqual([1, true]);
    expect(told.join('')).toBe('test: The database does not answer: ECONNREFUSED\n');
  });

  it('continues closing when a step fails or hangs', async () => {
    const closed: string[] = [];
    const code = await runService('test', async ({ logger, onShutdown, fail }) => {
      logger.level = 'silent';
      onShutdown('last', () => closed.push('last'));
      onShutdown('stuck', () => new Promise(() => {}), 10);
      onShutdown('broken', () => {
        throw new Error('broken');
      });
      fail(new Error('gone'));
    });
    expect([code, closed]).toEqual([1, ['last']]);
  });

  it('opens nothing after a signal interrupted its start, and logs no errors of that', async () => {
    const lines: string[] = [];
    vi.spyOn(process.stdout, 'write').mockImplementation((text) => lines.push(String(text)) > 0);
    const closed: string[] = [];
    const run = runService('test', async ({ logger, onShutdown }) => {
      onShutdown('database', () => closed.push('database'));
      await sleep(20);
      logger.error('driver has already been destroyed');
      onShutdown('next', () => closed.push('next'));
      closed.push('never');
    });
    await sleep(5);
    process.emit('SIGINT');
    expect(await run).toBe(0);
    expect(closed).toEqual(['database', 'next']);
    expect([told, lines]).toEqual([[], []]);
  });

  it('closes what an interrupted start opens', async () => {
    const closed: string[] = [];
    const run = runService('test', async ({ logger, onShutdown }) => {
      logger.level = 'silent';
      onShutdown('early', () => closed.push('early'));
      await sleep(20);
      onShutdown('late', () => closed.push('late'));
    });
    await sleep(5);
    process.emit('SIGINT');
    expect(await run).toBe(0);
    expect(closed).toEqual(['early', 'late']);
  });
});
