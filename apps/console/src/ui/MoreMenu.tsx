import { Menu } from '@base-ui/react/menu';
import { buttonClass } from './bits.tsx';
import styles from './controls.module.css';

export interface Action {
  readonly label: string;
  readonly danger?: boolean;
  readonly run: () => void;
}

/** Actions in a menu, which `label` names. */
export function MoreMenu({ label, actions }: { label: string; actions: readonly Action[] }) {
  return (
    <Menu.Root modal={false}>
      <Menu.Trigger className={buttonClass('plain', true)} aria-label={label}>
        More
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner align="end" sideOffset={4}>
          <Menu.Popup className={styles.menu}>
            {actions.map(({ label: text, danger, run }) => (
              <Menu.Item
                key={text}
                className={styles.menuItem}
                data-danger={danger || undefined}
                onClick={run}
              >
                {text}
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
