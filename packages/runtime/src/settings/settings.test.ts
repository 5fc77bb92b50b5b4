import Type from 'typebox';
import { describe, expect, it } from 'vitest';
import { readSettings, SettingsError } from './settings.ts';

const schema = Type.Object({
  PORT: Type.Integer({ minimum: 0, maximum: 65_535, default: 8080, description: 'a port' }),
  DATABASE_URL: Type.String({ pattern: '^postgres', description: 'the address of Postgres' }),
  TOKEN: Type.Optional(Type.String({ minLength: 16, description: 'a secret' })),
});
const refusal = (env: Record<string, string>) => {
  try {
    return readSettings(schema, env);
  } catch (error) {
    return error instanceof SettingsError ? error.message.split('\n') : error;
  }
};

describe('settings', () => {
  it('are converted and get defaults; an empty value counts as missing; other variables are ignored', () => {
    expect(refusal({ DATABASE_URL: 'postgres://x', PORT: '', TOKEN: '', PATH: '/bin' })).toEqual({
      DATABASE_URL: 'postgres://x',
      PORT: 8080,
    });
    expect(refusal({ DATABASE_URL: 'postgres://x', PORT: '0' })).toMatchObject({ PORT: 0 });
  });

  it('are all reported at once, each with what it should be, without its value', () => {
    expect(refusal({ PORT: '99999', TOKEN: 'hunter2' })).toEqual([
      'DATABASE_URL is missing: the address of Postgres',
      'PORT is not valid: a port',
      'TOKEN is not valid: a secret',
    ]);
  });
});
