import { eventually } from '@weighbridge/testing';
import { manage } from '../mainJob.ts';
import { chat } from './hostileCase.ts';
import { operate } from './product.ts';
import type { Scene } from './scene.ts';

type Json = Record<string, unknown>;

const SCOPES = [
  'keys:read',
  'keys:write',
  'usage:read',
  'models:read',
  'inference',
  'admin:read',
  'operator',
];
const ROLES = ['finance', 'auditor'] as const;

export interface Person {
  readonly principal: string;
  readonly keyId: string;
  readonly key: string;
}

/** Two teams. Everyone has a key with all scopes, so that only the role decides. */
export interface Company {
  /** In all names of the victim, of its team and of what it has. */
  readonly canary: string;
  readonly team: string;
  readonly member: Person;
  readonly colleague: Person;
  readonly lead: Person;
  readonly finance: Person;
  readonly auditor: Person;
  /** The team of the victim. */
  readonly otherTeam: string;
  readonly otherLead: Person;
  readonly victim: Person & { readonly policyId: string; readonly requestId: string };
}

let companies = 0;

export async function newCompany(scene: Scene): Promise<Company> {
  const { product } = scene;
  const n = ++companies;
  const canary = `canary-${n}x`;
  const post = async (path: string, body: Json) => await operate(product, 'POST', `/api/v1/${path}`, body);
  const idOf = async (path: string, body: Json) => String((await post(path, body)).id);
  const team = await idOf('teams', { name: `hostile team ${n}` });
  const policyId = await idOf('policies', { name: `${canary} policy`, counter_scope: 'principal' });
  const otherTeam = await idOf('teams', { name: `${canary} team`, member_policy_id: policyId });
  const hire = async (principal: string, teamId?: string, role = 'member'): Promise<Person> => {
    if (teamId) await operate(product, 'PUT', `/api/v1/teams/${teamId}/members/${principal}`, { role });
    const body = { name: `${principal} key`, principal_id: principal, scopes: SCOPES };
    const { id, key } = await post('keys?wait=propagated', body);
    return { principal, keyId: String(id), key: String(key) };
  };
  const [finance, auditor] = await Promise.all(
    ROLES.map(async (role) => {
      await operate(product, 'PUT', `/api/v1/principals/${role}-${n}`, { role });
      return await hire(`${role}-${n}`);
    }),
  );
  const victim = await hire(`${canary}-victim`, otherTeam);
  return {
    canary,
    team,
    member: await hire(`member-${n}`, team),
    colleague: await hire(`colleague-${n}`, team),
    lead: await hire(`lead-${n}`, team, 'lead'),
    finance: finance as Person,
    auditor: auditor as Person,
    otherTeam,
    otherLead: await hire(`${canary}-lead`, otherTeam, 'lead'),
    victim: { ...victim, policyId, requestId: await spend(scene, victim) },
  };
}

/** Has a person send a request, and one that is refused; returns the id of the first when both have a row. */
async function spend({ product }: Scene, { key }: Person): Promise<string> {
  const ask = async (model: string) =>
    await fetch(`${product.inferenceUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(chat(model)),
    });
  const answer = await ask('openai/plain');
  if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
  await ask('none/none');
  const id = String(answer.headers.get('x-request-id'));
  await eventually(
    async () => {
      const { body } = await manage(product, 'GET', '/api/v1/requests', { key });
      if ((body.data as Json[]).length < 2) throw new Error('the requests have no rows yet');
    },
    { intervalMs: 100 },
  );
  return id;
}
