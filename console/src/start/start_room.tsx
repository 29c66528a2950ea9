// The start page: what to do first, how to connect, and what the server and the user did last.
import { FileUp, SquareTerminal } from 'lucide-react';
import type { ReactNode } from 'react';
import { RoomLink } from '../app/room_path.tsx';
import { Connect } from './connect.tsx';
import { DemoData } from './demo_data.tsx';
import { RecentStatements, RecentTasks, Warehouses } from './server_state.tsx';
import { StarSchemaBenchmark } from './ssb.tsx';
import styles from './start_room.module.css';

interface StepProps {
  readonly room: string;
  readonly icon: ReactNode;
  readonly title: string;
  readonly children: ReactNode;
}

function Step({ room, icon, title, children }: StepProps) {
  return (
    <RoomLink room={room} className={styles.step}>
      {icon}
      <span>
        <strong>{title}</strong>
        <span className={styles.hint}>{children}</span>
      </span>
    </RoomLink>
  );
}

export function Room() {
  return (
    <div className={styles.room}>
      <div className={styles.steps}>
        <Step room="load" icon={<FileUp aria-hidden />} title="Load a file">
          CSV, JSON or Parquet becomes a table.
        </Step>
        <Step room="sql" icon={<SquareTerminal aria-hidden />} title="Write SQL">
          With completion, results and charts.
        </Step>
      </div>
      <div className={styles.columns}>
        <div className={styles.column}>
          <DemoData />
          <StarSchemaBenchmark />
          <Connect />
        </div>
        <div className={styles.column}>
          <Warehouses />
          <RecentStatements />
          <RecentTasks />
        </div>
      </div>
    </div>
  );
}
