import type { Json } from '../apply/desiredState.ts';
import { asObject } from './deployment.ts';
import type { Report } from './report.ts';
import { isTrue, text } from './values.ts';

/** The fields of a team's row that list its people. */
export const PEOPLE_FIELDS = ['members_with_roles', 'members', 'admins'] as const;

/** A team of LiteLLM, and the policy that its budget became. */
export interface TeamRow {
  readonly row: Json;
  readonly id: string;
  readonly name: string;
  readonly policy: string;
}

/** Whose key it is, and in which of LiteLLM's teams. */
interface Holder {
  readonly principal: string;
  readonly team: string | undefined;
}

/**
 * Teams for a file of `apply`. Everything that the people of a team spend counts for it, in LiteLLM only what they spend with the
 * team's keys: so only those are put into it who have no other keys.
 */
export function mapTeams(teams: readonly TeamRow[], holders: readonly Holder[], report: Report): Json[] {
  const placed = new Map<string, string>();
  return teams.map(({ row, id, name, policy }): Json => {
    const leads: string[] = [];
    const members: string[] = [];
    for (const [person, isLead] of peopleOf(row, id, holders, report)) {
      const elsewhere = holders.some(({ principal, team }) => principal === person && team !== id);
      const other = placed.get(person);
      if (other !== undefined || elsewhere) {
        const why = other === undefined ? 'it has keys outside of the team' : `it is in the team ${other}`;
        report.addSkipped(
          `team ${id}: ${person}`,
          `${why}, and all that the people of a team spend counts for it; its keys of this team count by their policy`,
        );
        continue;
      }
      placed.set(person, name);
      (isLead ? leads : members).push(person);
    }
    report.addConverted(`team ${id}`, `team ${name}`, `with ${leads.length + members.length} people`);
    return {
      name,
      policy,
      ...(isTrue(row.blocked) && { frozen: true }),
      ...(leads.length > 0 && { leads }),
      ...(members.length > 0 && { members }),
    };
  });
}

/** The people of a team, and whether they lead it: those that the row lists, and those who have keys of the team. */
function peopleOf(
  row: Json,
  id: string,
  holders: readonly Holder[],
  report: Report,
): ReadonlyMap<string, boolean> {
  const people = new Map<string, boolean>();
  const add = (person: string | undefined, isLead: boolean) => {
    if (person !== undefined) people.set(person.slice(0, 200), isLead || people.get(person) === true);
  };
  for (const field of PEOPLE_FIELDS) {
    for (const listed of listOf(row[field], `team ${id}: ${field}`, report)) {
      const { user_id, user_email, role } = asObject(listed);
      add(text(listed) ?? text(user_id) ?? text(user_email), field === 'admins' || role === 'admin');
    }
  }
  for (const { principal, team } of holders) if (team === id) add(principal, false);
  return people;
}

/** A list, also as JSON in a cell of a CSV. */
function listOf(value: unknown, at: string, report: Report): readonly unknown[] {
  if (Array.isArray(value)) return value;
  const given = text(value);
  if (given === undefined || given === '{}') return [];
  try {
    const list: unknown = JSON.parse(given);
    if (Array.isArray(list)) return list;
  } catch {
    // Reported below.
  }
  report.addSkipped(at, "it can't be read: put the people into the team by hand");
  return [];
}
