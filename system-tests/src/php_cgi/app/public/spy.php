<?php
// Tries what its user may not: prints which files, folders and sockets it could use.
require __DIR__ . '/../lib/app.php';

$could = [];
$trying = '';
// A script that was included may end this one.
register_shutdown_function(function () use (&$could, &$trying) {
    if ($trying !== '') {
        http_response_code(200);
        $could[] = $trying . ': ' . (error_get_last()['message'] ?? 'it ended');
    }
    echo json_encode($could);
});
foreach ($_GET['files'] ?? [] as $file) {
    if (@file_get_contents($file) !== false) {
        $could[] = "read $file";
    }
    if (@file_put_contents($file . '.new', 'x') !== false) {
        $could[] = "write $file";
    }
    // A cache of compiled scripts may have what the file system refuses.
    $trying = "include $file";
    if (str_ends_with($file, '.php') && (@include $file) !== false) {
        $could[] = $trying;
    }
    $trying = '';
}
foreach ($_GET['folders'] ?? [] as $folder) {
    if (@scandir($folder) !== false) {
        $could[] = "list $folder";
    }
}
foreach ($_GET['sockets'] ?? [] as $socket) {
    if (@stream_socket_client("unix://$socket") !== false) {
        $could[] = "connect to $socket";
    }
}
