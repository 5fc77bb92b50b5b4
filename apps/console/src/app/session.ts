import { useQuery } from '@tanstack/react-query';
import type { components } from '@weighbridge/client';
import { createContext, useContext } from 'react';
import { readSession } from '../api/client.ts';

export const SESSION_KEY = ['session'] as const;

export function useSession() {
  return useQuery({ queryKey: SESSION_KEY, queryFn: readSession, staleTime: Number.POSITIVE_INFINITY });
}

export type Whoami = components['schemas']['Whoami'];

export const WhoamiContext = createContext<Whoami | undefined>(undefined);

/** Who is signed in. */
export function useWhoami(): Whoami {
  const whoami = useContext(WhoamiContext);
  if (!whoami) throw new Error('no one is signed in');
  return whoami;
}

/** Whether a person sees the objects of everyone. */
export function readsAll({ roles }: Whoami): boolean {
  return roles.includes('operator') || roles.includes('auditor');
}

export function isOperator({ roles, scopes }: Whoami): boolean {
  return roles.includes('operator') && scopes.includes('operator');
}
