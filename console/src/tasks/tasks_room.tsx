// The room of tasks and schedules: /tasks, /tasks/<task id>, /tasks/schedules, /tasks/schedules/<name>.
import { useOpenRoom, useRoomPath, useRoomSearch } from '../app/room_path.tsx';
import { WithSidePanel } from '../ui/layout/side_panel.tsx';
import { Tabs } from '../ui/layout/tabs.tsx';
import { ScheduleDetail } from './schedule_detail.tsx';
import { ScheduleList } from './schedule_list.tsx';
import { TaskDetail } from './task_detail.tsx';
import { TaskList } from './task_list.tsx';
import styles from './tasks_room.module.css';

export function Room() {
  const [first, name] = useRoomPath();
  const search = useRoomSearch();
  const openRoom = useOpenRoom();
  const view = first === 'schedules' ? 'schedules' : 'tasks';
  return (
    <div className={styles.room}>
      <h2 className="visually-hidden">Tasks and schedules</h2>
      <Tabs
        label="Tasks and schedules"
        value={view}
        onChange={(next) => openRoom('tasks', next === 'schedules' ? ['schedules'] : [])}
        tabs={[
          {
            value: 'tasks',
            label: 'Tasks',
            content: (
              <WithSidePanel
                panel={
                  first !== undefined &&
                  view === 'tasks' && (
                    <TaskDetail key={first} taskId={first} onClose={() => openRoom('tasks', [], search)} />
                  )
                }
              >
                <TaskList isCompact={first !== undefined} />
              </WithSidePanel>
            ),
          },
          {
            value: 'schedules',
            label: 'Schedules',
            content: (
              <WithSidePanel
                panel={
                  name !== undefined && (
                    <ScheduleDetail key={name} name={name} onClose={() => openRoom('tasks', ['schedules'])} />
                  )
                }
              >
                <ScheduleList isCompact={name !== undefined} />
              </WithSidePanel>
            ),
          },
        ]}
      />
    </div>
  );
}
