import { describe, expect, it } from 'vitest';
import { ResponseBody } from './responseBody.ts';

function bodyOfSource() {
  const calls: string[] = [];
  const body = new ResponseBody({
    pause: () => calls.push('pause'),
    resume: () => calls.push('resume'),
    abort: () => calls.push('abort'),
  });
  return { body, calls };
}

/** Handles each chunk at once, until `fallBehind` makes it wait for `catchUp`. */
function reading(body: ResponseBody) {
  const received: string[] = [];
  let wait = false;
  let goOn: () => void = () => {};
  const end = body.forEachChunk((chunk) => {
    received.push(String(chunk).slice(0, 1));
    if (!wait) return undefined;
    return new Promise((resolve) => {
      goOn = resolve;
    });
  });
  return {
    received,
    end,
    fallBehind: () => {
      wait = true;
    },
    catchUp: async () => {
      wait = false;
      goOn();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

const CHUNK = Buffer.alloc(10 * 1024, 'x');

describe('a response body', () => {
  it('passes its chunks on in order, at once, and then its end', async () => {
    const { body } = bodyOfSource();
    body.push(Buffer.from('a'));
    body.push(Buffer.from('b'));
    expect(body.started()).toBeUndefined();
    const { received, end } = reading(body);
    expect(received).toEqual(['a', 'b']);
    body.push(Buffer.from('c'));
    expect(received).toEqual(['a', 'b', 'c']);
    body.end();
    await end;
  });

  it('holds the next chunk until the handler is done, and pauses the source meanwhile', async () => {
    const { body, calls } = bodyOfSource();
    const reader = reading(body);
    reader.fallBehind();
    body.push(Buffer.from('a'));
    body.push(CHUNK);
    expect(calls).toEqual([]);
    body.push(CHUNK);
    body.push(CHUNK);
    expect(calls).toEqual(['pause']);
    expect(reader.received).toEqual(['a']);
    await reader.catchUp();
    expect(reader.received).toEqual(['a', 'x', 'x', 'x']);
    expect(calls).toEqual(['pause', 'resume']);
    reader.fallBehind();
    body.push(Buffer.from('b'));
    body.end();
    await reader.catchUp();
    await reader.end;
  });

  it('does not end before the chunks are handled that arrive while the source resumes', async () => {
    const body: ResponseBody = new ResponseBody({
      pause() {},
      resume() {
        for (const name of ['c', 'd']) body.push(Buffer.from(name));
        body.end();
      },
      abort() {},
    });
    const received: string[] = [];
    const waiting: (() => void)[] = [];
    let isOver = false;
    const end = body.forEachChunk((chunk) => {
      received.push(String(chunk).slice(0, 1));
      return new Promise((resolve) => waiting.push(resolve));
    });
    void end?.then(() => {
      isOver = true;
    });
    const catchUp = async () => {
      waiting.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    };
    body.push(Buffer.from('a'));
    body.push(Buffer.from('b'.repeat(20 * 1024)));
    await catchUp();
    await catchUp();
    expect(received).toEqual(['a', 'b', 'c']);
    expect(isOver).toBe(false);
    await catchUp();
    expect(received).toEqual(['a', 'b', 'c', 'd']);
    expect(isOver).toBe(false);
    await catchUp();
    await end;
  });

  it('pauses its source while no one reads it', () => {
    const { body, calls } = bodyOfSource();
    body.push(CHUNK);
    expect(calls).toEqual([]);
    body.push(CHUNK);
    expect(calls).toEqual(['pause']);
    expect(reading(body).received).toHaveLength(2);
    expect(calls).toEqual(['pause', 'resume']);
  });

  it('passes on the chunks that arrived before it broke off, then rejects', async () => {
    const { body } = bodyOfSource();
    body.push(Buffer.from('a'));
    body.fail(new Error('reset'));
    const { received, end } = reading(body);
    expect(received).toEqual(['a']);
    await expect(end).rejects.toThrow('reset');
    await expect(body.started()).rejects.toThrow('reset');

    const { body: silent } = bodyOfSource();
    const begun = silent.started();
    silent.fail(new Error('reset'));
    await expect(begun).rejects.toThrow('reset');
    const { body: cut } = bodyOfSource();
    const waiting = reading(cut);
    waiting.fallBehind();
    cut.push(Buffer.from('a'));
    cut.push(Buffer.from('b'));
    cut.fail(new Error('reset'));
    expect(waiting.received).toEqual(['a']);
    const failed = expect(waiting.end).rejects.toThrow('reset');
    await waiting.catchUp();
    expect(waiting.received).toEqual(['a', 'b']);
    await failed;
  });

  it('rejects where the handler fails, at once or later, and passes nothing on after that', async () => {
    for (const fails of [
      () => {
        throw new Error('full');
      },
      () => Promise.reject(new Error('full')),
    ]) {
      const { body } = bodyOfSource();
      const end = body.forEachChunk(fails);
      body.push(Buffer.from('a'));
      await expect(end).rejects.toThrow('full');
      body.push(Buffer.from('b'));
      body.end();
    }
  });

  it('has nothing to wait for if all of it is here, and rejects if that can not be handled', async () => {
    const whole = ResponseBody.of(Buffer.from('a'));
    const received: string[] = [];
    expect(whole.forEachChunk((chunk) => void received.push(String(chunk)))).toBeUndefined();
    expect(received).toEqual(['a']);
    const failing = ResponseBody.of(Buffer.from('a')).forEachChunk(() => {
      throw new Error('full');
    });
    await expect(failing).rejects.toThrow('full');
  });

  it('aborts its source when it is destroyed, unless that has ended', async () => {
    const { body, calls } = bodyOfSource();
    body.push(CHUNK);
    body.destroy();
    body.push(CHUNK);
    expect(calls).toEqual(['abort']);
    await expect(reading(body).end).rejects.toThrow('was discarded');

    const { body: whole, calls: callsOfWhole } = bodyOfSource();
    whole.end();
    whole.destroy();
    expect(callsOfWhole).toEqual([]);
  });

  it('is complete at once where its bytes are known', async () => {
    const { received, end } = reading(ResponseBody.of(Buffer.from('all')));
    expect(received).toEqual(['a']);
    await end;
  });
});
