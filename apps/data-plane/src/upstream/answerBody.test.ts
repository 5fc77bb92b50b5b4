import { describe, expect, it } from 'vitest';
import { AnswerBody } from './answerBody.ts';

function bodyOfSource() {
  const told: string[] = [];
  const body = new AnswerBody({
    pause: () => told.push('pause'),
    resume: () => told.push('resume'),
    abort: () => told.push('abort'),
  });
  return { body, told };
}
const CHUNK = Buffer.alloc(10 * 1024, 'x');

describe('the body of an answer', () => {
  it('is read in the order in which it comes, at once where it is there, and then its end', async () => {
    const { body } = bodyOfSource();
    body.push(Buffer.from('a'));
    body.push(Buffer.from('b'));
    expect(body.begun()).toBeUndefined();
    expect(String(body.read())).toBe('a');
    expect(String(body.read())).toBe('b');
    const waiting = body.read();
    expect(waiting).toBeInstanceOf(Promise);
    body.push(Buffer.from('c'));
    expect(String(await waiting)).toBe('c');
    body.end();
    expect(body.read()).toBeUndefined();
    expect(body.read()).toBeUndefined();
  });

  it('has its source wait while its reader does not read, and go on once all was read', () => {
    const { body, told } = bodyOfSource();
    body.push(CHUNK);
    expect(told).toEqual([]);
    body.push(CHUNK);
    body.push(CHUNK);
    expect(told).toEqual(['pause']);
    body.read();
    body.read();
    expect(told).toEqual(['pause']);
    body.read();
    expect(told).toEqual(['pause', 'resume']);
  });

  it('gives what came before it broke off, and then says that it did', async () => {
    const { body } = bodyOfSource();
    body.push(Buffer.from('a'));
    body.fail(new Error('reset'));
    expect(String(body.read())).toBe('a');
    expect(() => body.read()).toThrow('reset');
    await expect(body.begun()).rejects.toThrow('reset');

    const { body: silent } = bodyOfSource();
    const [begun, read] = [silent.begun(), bodyOfSource().body];
    silent.fail(new Error('reset'));
    await expect(begun).rejects.toThrow('reset');
    const waiting = read.read();
    read.fail(new Error('reset'));
    await expect(waiting).rejects.toThrow('reset');
  });

  it('ends its source when nobody reads it any further, unless that has ended', () => {
    const { body, told } = bodyOfSource();
    body.push(CHUNK);
    body.destroy();
    body.push(CHUNK);
    expect(told).toEqual(['abort']);
    expect(() => body.read()).toThrow('not read any further');

    const { body: whole, told: toldOfWhole } = bodyOfSource();
    whole.end();
    whole.destroy();
    expect(toldOfWhole).toEqual([]);
  });

  it('is there at once where its bytes are', () => {
    const body = AnswerBody.of(Buffer.from('all'));
    expect(String(body.read())).toBe('all');
    expect(body.read()).toBeUndefined();
  });
});
