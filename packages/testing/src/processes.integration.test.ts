import { afterEach, describe, expect, test } from 'vitest';
import { eventually } from './eventually.ts';
import { type ProcessOptions, startProcess, type TestProcess } from './processes.ts';

const started: TestProcess[] = [];

afterEach(async () => {
  for (const process of started.splice(0)) await process.stop('SIGKILL');
});

describe('a started process', () => {
  test('is returned when it is ready, with its output so far', async () => {
    const process = await node(
      `console.log('warming up'); setTimeout(() => console.error('ready on 7'), 50)${STAY}`,
      {
        readyWhen: /ready on \d/,
      },
    );
    expect(process.output()).toBe('warming up\nready on 7\n');
  });

  test('that is not ready in time is killed, and its output is in the error', async () => {
    const failure = await node(`console.log('pid', process.pid)${STAY}`, {
      readyWhen: (output) => output.includes('never'),
      timeoutMs: 500,
    }).catch(String);
    expect(failure).toMatch(/not within 500 ms.*\n\$ .*node.*\npid \d+/s);
    expect(isAlive(Number(/pid (\d+)/.exec(String(failure))?.[1]))).toBe(false);
  });

  test('that ends before it is ready fails at once, with its exit code and output', async () => {
    const failure = node(`console.error('no such option'); process.exitCode = 3`, {
      readyWhen: /ready/,
      timeoutMs: 20_000,
    });
    await expect(failure).rejects.toThrow(/it ended \(exit code 3\)(.|\n)*no such option/);
  });

  test('that does not exist fails with its path', async () => {
    await expect(startProcess({ command: '/nowhere/program' })).rejects.toThrow(
      /\/nowhere\/program can't be started/,
    );
  });

  test('has only the given environment, with PATH and HOME', async () => {
    const process = await node(`console.log(Object.keys(process.env).sort().join())`, {
      env: { GIVEN: '1' },
    });
    await process.ended;
    // The system adds its own on macOS.
    expect(process.output().trim().replace('__CF_USER_TEXT_ENCODING', '')).toMatch(/^GIVEN,HOME,PATH,?$/);
  });

  test('can be awaited until its output matches, with a time-out', async () => {
    const process = await node(`setTimeout(() => console.log('port 4711'), 50)${STAY}`);
    expect((await process.waitFor(/port (\d+)/))[1]).toBe('4711');
    await expect(process.waitFor(/port 1/, 50)).rejects.toThrow(/not within 50 ms(.|\n)*port 4711/);
  });

  test('handles a signal itself, and stopping it again returns the same result', async () => {
    const process = await node(
      `process.on('SIGTERM', () => { console.log('bye'); process.exit(0) }); console.log('up')${STAY}`,
      { readyWhen: /up/ },
    );
    expect(await process.stop()).toEqual({ code: 0, signal: null });
    expect(process.output()).toContain('bye');
    expect(await process.stop()).toEqual({ code: 0, signal: null });
  });

  test('that ignores the signal is killed, and `stop` rejects', async () => {
    const process = await node(`process.on('SIGTERM', () => {}); console.log('up')${STAY}`, {
      readyWhen: /up/,
    });
    await expect(process.stop('SIGTERM', 200)).rejects.toThrow(/Did not end within 200 ms of SIGTERM/);
    expect(isAlive(process.pid)).toBe(false);
  });
});

describe('eventually', () => {
  test('returns the result of the assertion once it passes', async () => {
    let calls = 0;
    const result = await eventually(() => {
      calls += 1;
      expect(calls).toBe(3);
      return 'done';
    });
    expect(result).toBe('done');
  });

  test('throws the last failure when the time is up', async () => {
    const assertion = () => expect('state').toBe('other');
    await expect(eventually(assertion, { timeoutMs: 60, intervalMs: 10 })).rejects.toThrow(
      /expected 'state'/,
    );
  });
});

const STAY = '; setInterval(() => {}, 1000)';

async function node(script: string, options: Partial<ProcessOptions> = {}): Promise<TestProcess> {
  const child = await startProcess({ command: process.execPath, args: ['-e', script], ...options });
  started.push(child);
  return child;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
